//! Tasks run near their data, by the nodes of pods: an executor's address says nothing of where it is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firesteel::Listener;
use firesteel::types::Event;
use firesteel::types::event::{Locality, TaskInfo};

use crate::application::{builder, start};
use crate::client_mode::number;
use crate::cluster::{Turn, name, turn, wait_for};

/// The tasks that a driver started.
#[derive(Clone, Default)]
struct Placed(Arc<Mutex<Vec<TaskInfo>>>);

impl Listener for Placed {
    fn on_event(&mut self, event: &Event) {
        if let Event::TaskStart { task, .. } = event {
            self.0.lock().unwrap().push(task.clone());
        }
    }
}

impl Placed {
    /// The next ones, once there are so many.
    fn take(&self, count: usize) -> Vec<TaskInfo> {
        wait_for("tasks", || {
            let mut placed = self.0.lock().unwrap();
            (placed.len() >= count).then(|| std::mem::take(&mut *placed))
        })
    }
}

/// The nodes of executors, as the API server knows them.
fn nodes(turn: &Turn) -> BTreeMap<u32, String> {
    let pods = turn.pods("executor").into_iter();
    pods.filter_map(|pod| Some((number(&name(&pod)), pod.spec?.node_name?))).collect()
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn a_task_whose_executor_is_busy_runs_on_another_one_of_the_same_node() {
    let turn = turn("locality");
    let placed = Placed::default();
    let settings = builder(&turn)
        .listener(placed.clone())
        .config("spark.executor.instances", 4)
        .config("spark.locality.wait.process", "200ms")
        .config("spark.locality.wait.node", "60s");
    let (ctx, _seen) = start(settings, 4);
    let nodes = nodes(&turn);
    let cached = ctx.parallelize_in(1, 0..100u64).cache();
    assert_eq!(cached.count().unwrap(), 100);
    let holder = placed.take(1).remove(0).executor;
    let home = &nodes[&holder.0];
    let neighbours = nodes.iter().filter(|(id, node)| **id != holder.0 && *node == home).count();
    assert!(neighbours > 0, "executor {holder} is alone on its node: {nodes:?}");
    // The holder is busy with the first of them when the others have waited for it for long enough.
    let again = ctx.union(&[cached.clone(), cached.clone(), cached.clone(), cached]);
    let slow = again.map_partitions(|items| {
        std::thread::sleep(Duration::from_millis(700));
        items
    });
    assert_eq!(slow.sum().unwrap(), 4 * 4950);
    let tasks = placed.take(4);
    for task in &tasks {
        let node = &nodes[&task.executor.0];
        assert_eq!(&task.host.to_string(), node, "a task is told by its node: {task:?}");
        assert_eq!(node, home, "{task:?} of what executor {holder} has");
        assert!(task.locality <= Locality::NodeLocal, "{task:?}");
    }
    let beside: Vec<_> = tasks.iter().filter(|task| task.locality == Locality::NodeLocal).collect();
    println!("locality: {} of 4 tasks ran on another executor of their node", beside.len());
    assert!(!beside.is_empty(), "{tasks:?}");
    for task in beside {
        assert_ne!(task.executor, holder, "{task:?}");
    }
    ctx.stop();
}
