//! The numbers of fields, as Perfetto's `protos/perfetto/trace` gives them.

pub(super) mod packet {
    pub(crate) const PACKET: u32 = 1;
    pub(crate) const CLOCK_SNAPSHOT: u32 = 6;
    pub(crate) const TIMESTAMP: u32 = 8;
    pub(crate) const SEQUENCE: u32 = 10;
    pub(crate) const TRACK_EVENT: u32 = 11;
    pub(crate) const INTERNED: u32 = 12;
    pub(crate) const FLAGS: u32 = 13;
    pub(crate) const TRACK_DESCRIPTOR: u32 = 60;
    pub(crate) const PERF_SAMPLE: u32 = 66;
}

pub(super) mod clock {
    pub(crate) const CLOCKS: u32 = 1;
    pub(crate) const PRIMARY: u32 = 2;
    pub(crate) const ID: u32 = 1;
    pub(crate) const TIMESTAMP: u32 = 2;
    /// The ids of clocks.
    pub(crate) const REALTIME: u64 = 1;
    pub(crate) const BOOTTIME: u64 = 6;
}

pub(super) mod track {
    pub(crate) const UUID: u32 = 1;
    pub(crate) const NAME: u32 = 2;
    pub(crate) const PROCESS: u32 = 3;
    pub(crate) const THREAD: u32 = 4;
    pub(crate) const PARENT: u32 = 5;
    pub(crate) const COUNTER: u32 = 8;
    pub(crate) const CHILD_ORDERING: u32 = 11;
    pub(crate) const SIBLING_ORDER_RANK: u32 = 12;
    /// Children are ordered by their ranks.
    pub(crate) const EXPLICIT: u64 = 3;
    pub(crate) const DESCRIPTION: u32 = 14;
    pub(crate) const PROCESS_PID: u32 = 1;
    pub(crate) const PROCESS_NAME: u32 = 6;
    pub(crate) const THREAD_PID: u32 = 1;
    pub(crate) const THREAD_TID: u32 = 2;
    pub(crate) const THREAD_NAME: u32 = 5;
    pub(crate) const COUNTER_UNIT: u32 = 6;
}

pub(super) mod event {
    pub(crate) const CATEGORY: u32 = 3;
    pub(crate) const TYPE: u32 = 9;
    pub(crate) const NAME: u32 = 10;
    pub(crate) const TRACK: u32 = 11;
    pub(crate) const PLAIN_CATEGORY: u32 = 22;
    pub(crate) const PLAIN_NAME: u32 = 23;
    pub(crate) const DOUBLE_COUNTER: u32 = 44;
    pub(crate) const FLOW: u32 = 47;
    pub(crate) const LAST_FLOW: u32 = 48;
    /// The types.
    pub(crate) const BEGIN: u64 = 1;
    pub(crate) const END: u64 = 2;
    pub(crate) const INSTANT: u64 = 3;
    pub(crate) const COUNTER: u64 = 4;
}

pub(super) mod interned {
    pub(crate) const CATEGORIES: u32 = 1;
    pub(crate) const NAMES: u32 = 2;
    pub(crate) const ANNOTATIONS: u32 = 3;
    pub(crate) const FUNCTIONS: u32 = 5;
    pub(crate) const FRAMES: u32 = 6;
    pub(crate) const CALLSTACKS: u32 = 7;
    pub(crate) const MAPPING_PATHS: u32 = 17;
    pub(crate) const MAPPINGS: u32 = 19;
    pub(crate) const IID: u32 = 1;
    pub(crate) const TEXT: u32 = 2;
    pub(crate) const FRAME_FUNCTION: u32 = 2;
    pub(crate) const FRAME_MAPPING: u32 = 3;
    pub(crate) const FRAME_PC: u32 = 4;
    pub(crate) const STACK_FRAMES: u32 = 2;
    pub(crate) const MAPPING_START: u32 = 4;
    pub(crate) const MAPPING_END: u32 = 5;
    pub(crate) const MAPPING_PATH: u32 = 7;
}

pub(super) mod sample {
    pub(crate) const CPU: u32 = 1;
    pub(crate) const PID: u32 = 2;
    pub(crate) const TID: u32 = 3;
    pub(crate) const CALLSTACK: u32 = 4;
    pub(crate) const CPU_MODE: u32 = 5;
    /// The mode `MODE_USER`.
    pub(crate) const USER: u64 = 2;
}
