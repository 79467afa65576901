//! Tests that run at once in one process, each with two workers.

macro_rules! beside_each_other {
    ($($name:ident: $test:ident($id:expr);)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            $test($id).await;
        }
    )*};
}
