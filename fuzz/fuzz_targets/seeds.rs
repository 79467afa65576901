//! Writes the seeds of `raw_bytes` into a directory.

use std::{env, fs, path::PathBuf};

fn main() {
    let dir = PathBuf::from(env::args_os().nth(1).expect("usage: seeds DIR"));
    fs::create_dir_all(&dir).expect("the directory can be made");
    for (name, bytes) in nettrace_fuzz::seeds() {
        fs::write(dir.join(name), bytes).expect("the seed can be written");
    }
}
