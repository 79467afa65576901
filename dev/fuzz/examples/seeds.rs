//! Writes the seeds of `raw_bytes` into a directory.

use std::{env, fs, path::PathBuf};

fn main() {
    let dir = PathBuf::from(env::args_os().nth(1).expect("usage: seeds DIR"));
    fs::create_dir_all(&dir).expect("the directory can be made");
    for (i, (name, bytes)) in nettrace_fuzz::seeds().into_iter().enumerate() {
        // The first byte is the way of reading. None of these puts anything before the bytes.
        let way = i as u8 % 4;
        fs::write(dir.join(name), [&[way][..], &bytes].concat()).expect("the seed can be written");
    }
}
