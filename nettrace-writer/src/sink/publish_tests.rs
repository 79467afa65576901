//! Checks what a file's name stands for, after every operation on a directory that fails at will.

use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::Arc;

use crate::sync::Mutex;

use super::*;

const HEADER: &[u8] = b"header!";
const END: &[u8] = &[0; 4];
const COMPLETE: &[u8] = b"header!\0\0\0\0";
const NAME: &str = "trace";
const OLD: &[u8] = b"what was there";
const PREVIOUS: &str = "trace.previous";
const OLDER: &[u8] = b"what was there before that";

/// The abilities of a file system, from least to most: the ways that `publish` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Can {
    Claim,
    Link,
    RenameNew,
    Unnamed,
}

const ALL: [Can; 4] = [Can::Unnamed, Can::RenameNew, Can::Link, Can::Claim];

type Content = Arc<Mutex<Vec<u8>>>;

#[derive(Debug)]
struct Files {
    can: Can,
    existing: Existing,
    names: HashMap<OsString, Content>,
    /// The number of the operation that fails. The first is 1.
    failing: usize,
    done: usize,
    /// Someone else takes the name before this operation.
    taken_at: Option<usize>,
}

impl Files {
    fn new(can: Can) -> Self {
        let names = HashMap::new();
        Self { can, existing: Existing::Stays, names, failing: usize::MAX, done: 0, taken_at: None }
    }

    fn put(&mut self, name: &str, content: &[u8]) {
        self.names.insert(name.into(), Arc::new(Mutex::new(content.to_vec())));
    }

    fn content(&self, name: &str) -> Option<Vec<u8>> {
        self.names.get(OsStr::new(name)).map(|content| content.lock().clone())
    }

    /// Does one operation: checks the state before it, and may fail.
    fn operation(&mut self, needs: Can) -> io::Result<()> {
        self.check();
        self.done += 1;
        if self.taken_at == Some(self.done) {
            self.put(NAME, OLD);
        }
        if self.done == self.failing {
            return Err(ErrorKind::Other.into());
        }
        if self.can < needs { Err(ErrorKind::Unsupported.into()) } else { Ok(()) }
    }

    fn check(&self) {
        match self.content(NAME).as_deref() {
            // Without links, the old file has its other name for a moment.
            None if self.existing == Existing::IsKept && self.can < Can::Link => {
                assert_eq!(self.content(PREVIOUS).as_deref(), Some(OLD));
            }
            None => assert_eq!(self.existing, Existing::Stays, "the old file is gone"),
            Some(COMPLETE | OLD) => {}
            Some(b"") if self.can == Can::Claim => {}
            Some(other) => panic!("neither the old nor a complete file: {other:?}"),
        }
    }

    fn free(&self, name: &OsStr) -> io::Result<()> {
        if self.names.contains_key(name) { Err(ErrorKind::AlreadyExists.into()) } else { Ok(()) }
    }

    fn file(&self, name: &OsStr) -> io::Result<Content> {
        self.names.get(name).cloned().ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl FileCalls for Content {
    fn write_at(&mut self, pieces: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let mut content = self.lock();
        assert_eq!(offset, content.len() as u64);
        content.extend_from_slice(&pieces[0]);
        Ok(pieces[0].len())
    }

    fn truncate(&mut self, _length: u64) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn size_limit(&mut self) -> u64 {
        u64::MAX
    }

    fn too_large(&self) -> io::Error {
        ErrorKind::FileTooLarge.into()
    }
}

impl Directory for Files {
    type File = Content;
    type Claim = ();

    fn claim(&mut self, name: &OsStr) -> io::Result<Option<()>> {
        self.operation(Can::Claim)?;
        Ok(self.file(name).ok().map(drop))
    }

    fn create_unnamed(&mut self) -> io::Result<Content> {
        self.operation(Can::Unnamed)?;
        Ok(Content::default())
    }

    fn link_unnamed(&mut self, file: &Content, name: &OsStr) -> io::Result<()> {
        self.operation(Can::Unnamed)?;
        self.free(name)?;
        self.names.insert(name.into(), file.clone());
        Ok(())
    }

    fn create_new(&mut self, name: &OsStr) -> io::Result<Content> {
        self.operation(Can::Claim)?;
        self.free(name)?;
        let content = Content::default();
        self.names.insert(name.into(), content.clone());
        Ok(content)
    }

    fn rename_new(&mut self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.operation(Can::RenameNew)?;
        self.free(to)?;
        let file = self.file(from)?;
        self.names.remove(from);
        self.names.insert(to.into(), file);
        Ok(())
    }

    fn link(&mut self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.operation(Can::Link)?;
        self.free(to)?;
        let file = self.file(from)?;
        self.names.insert(to.into(), file);
        Ok(())
    }

    fn rename(&mut self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.operation(Can::Claim)?;
        let file = self.file(from)?;
        self.names.remove(from);
        self.names.insert(to.into(), file);
        Ok(())
    }

    fn remove(&mut self, name: &OsStr) -> io::Result<()> {
        self.operation(Can::Claim)?;
        self.names.remove(name).map(|_| ()).ok_or_else(|| ErrorKind::NotFound.into())
    }
}

/// As [`FileSink`](super::super::FileSink) has its directory.
impl Directory for &mut Files {
    type File = Content;
    type Claim = ();

    fn claim(&mut self, name: &OsStr) -> io::Result<Option<()>> {
        (**self).claim(name)
    }

    fn create_unnamed(&mut self) -> io::Result<Content> {
        (**self).create_unnamed()
    }

    fn link_unnamed(&mut self, file: &Content, name: &OsStr) -> io::Result<()> {
        (**self).link_unnamed(file, name)
    }

    fn create_new(&mut self, name: &OsStr) -> io::Result<Content> {
        (**self).create_new(name)
    }

    fn rename_new(&mut self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        (**self).rename_new(from, to)
    }

    fn link(&mut self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        (**self).link(from, to)
    }

    fn rename(&mut self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        (**self).rename(from, to)
    }

    fn remove(&mut self, name: &OsStr) -> io::Result<()> {
        (**self).remove(name)
    }
}

fn run(files: &mut Files) -> io::Result<()> {
    let existing = files.existing;
    let result = publish_marked(files, OsStr::new(NAME), existing, HEADER, END).map(drop);
    files.check();
    result
}

/// The same for a file that gets its name when its stream is whole.
fn run_whole(files: &mut Files) -> io::Result<()> {
    let existing = files.existing;
    let result = (|| {
        let begin = |file| CompleteFile::begin(file, HEADER, END);
        let begun = UnnamedFile::begin(&mut *files, OsStr::new(NAME), existing, begin);
        let (unnamed, file) = begun?;
        assert_ne!(unnamed.directory.content(NAME).as_deref(), Some(COMPLETE));
        unnamed.publish(file.calls())
    })();
    files.check();
    result
}

type Run = fn(&mut Files) -> io::Result<()>;
const RUNS: [Run; 2] = [run, run_whole];

#[test]
fn every_file_system_gets_there_and_leaves_no_hidden_file() {
    for (can, run) in ALL.into_iter().flat_map(|can| RUNS.map(|run| (can, run))) {
        let mut files = Files::new(can);
        run(&mut files).unwrap();
        assert_eq!(files.content(NAME).unwrap(), COMPLETE, "{can:?}");
        assert_eq!(files.names.len(), 1, "{can:?}: {:?}", files.names);
    }
}

#[test]
fn a_taken_name_stays_as_it_is() {
    for (can, run) in ALL.into_iter().flat_map(|can| RUNS.map(|run| (can, run))) {
        for taken_at in 1..8 {
            let mut files = Files::new(can);
            files.taken_at = Some(taken_at);
            let result = run(&mut files);
            if files.done < taken_at {
                result.unwrap();
                continue;
            }
            let claimed = can == Can::Claim && taken_at > 5; // behind the claim the name is ours
            if let Err(error) = result {
                assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{can:?} {taken_at}");
                assert_eq!(files.content(NAME).unwrap(), OLD, "{can:?} {taken_at}");
                assert_eq!(files.names.len(), 1, "{can:?} {taken_at}: {:?}", files.names);
            } else {
                let placed = files.content(NAME).unwrap();
                assert!(claimed || placed == OLD, "{can:?} {taken_at}: replaced a stranger's file");
            }
        }
    }
}

#[test]
fn each_operation_fails_in_turn() {
    for (can, run) in ALL.into_iter().flat_map(|can| RUNS.map(|run| (can, run))) {
        for existing in [Existing::Stays, Existing::IsReplaced, Existing::IsKept] {
            let overwrite = existing != Existing::Stays;
            for failing in 1..14 {
                let mut files = Files::new(can);
                files.failing = failing;
                files.existing = existing;
                if overwrite {
                    files.put(NAME, OLD);
                    files.put(PREVIOUS, OLDER);
                }
                let result = run(&mut files);
                match (result, files.content(NAME).as_deref()) {
                    (Ok(()), Some(COMPLETE)) => {}
                    (Err(_), None) => assert!(!overwrite),
                    (Err(_), Some(OLD)) => assert!(overwrite),
                    (result, content) => panic!("{can:?} {failing}: {result:?}, {content:?}"),
                }
                let previous = files.content(PREVIOUS);
                match existing {
                    Existing::Stays => assert_eq!(previous, None),
                    Existing::IsReplaced => assert_eq!(previous.as_deref(), Some(OLDER)),
                    Existing::IsKept if files.content(NAME).as_deref() == Some(COMPLETE) => {
                        assert_eq!(previous.as_deref(), Some(OLD), "{can:?} {failing}");
                    }
                    Existing::IsKept => assert_ne!(previous.as_deref(), Some(COMPLETE)),
                }
            }
        }
    }
}

#[test]
fn overwriting_replaces_at_once() {
    for (can, run) in ALL.into_iter().flat_map(|can| RUNS.map(|run| (can, run))) {
        let mut files = Files::new(can);
        files.existing = Existing::IsReplaced;
        files.put(NAME, OLD);
        run(&mut files).unwrap();
        assert_eq!(files.content(NAME).unwrap(), COMPLETE);
        assert_eq!(files.names.len(), 1);
    }
}

#[test]
fn the_names_of_files_that_are_kept() {
    for (name, kept) in [
        ("service.nettrace", "service.previous.nettrace"),
        ("a.b.nettrace", "a.b.previous.nettrace"),
        ("trace", "trace.previous"),
        (".hidden", ".hidden.previous"),
    ] {
        assert_eq!(previous(OsStr::new(name)), kept);
    }
}

#[test]
fn hidden_names_that_are_taken_are_stepped_over() {
    let mut files = Files::new(Can::RenameNew);
    let stale = format!(".nettrace-{}-0", std::process::id());
    files.put(&stale, b"left by a process of the same number");
    run(&mut files).unwrap();
    assert_eq!(files.content(NAME).unwrap(), COMPLETE);
    assert_eq!(files.content(&stale).unwrap(), b"left by a process of the same number");
}
