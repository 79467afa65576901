//! Traces in the formats of viewers, each compared with the source, with the others, and with the
//! programs that read it.

mod chrome;
mod firefox;
mod hostile;
mod judge_dotnet;
mod libraries;
mod perfetto;
mod profiles;
mod schemas;
mod sources;
mod speedscope_page;
