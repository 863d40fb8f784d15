//! The thread that runs the controllers, and the timers that make time pass for them.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};

use super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use crate::clock::ClockSpeed;
use crate::core::Core;
use crate::store::{ChangeType, StoreEvent};

/// Reconciliations between two checks of the clock and of the commands.
const BURST: usize = 64;
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

enum EngineCommand {
    /// Answer when nothing is left to do right now.
    Settle(oneshot::Sender<()>),
    /// Move the clock, stopping wherever something is due.
    Advance(Duration),
}

/// A handle on the running controllers. They stop when it is dropped.
pub(crate) struct ControllerEngine {
    commands: mpsc::UnboundedSender<EngineCommand>,
}

impl ControllerEngine {
    pub(crate) fn start(
        core: &Arc<Core>,
        controllers: Vec<Box<dyn Controller>>,
    ) -> std::io::Result<ControllerEngine> {
        let events = core.store.tap_events();
        let (commands, receiver) = mpsc::unbounded_channel();
        let cluster = ClusterHandle::new(core.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        std::thread::Builder::new().name("sandbox-controllers".into()).spawn(move || {
            let mut runner = ControllerRunner {
                retries: HashMap::new(),
                queue: VecDeque::new(),
                queued: HashSet::new(),
                timers: BTreeMap::new(),
                timed: HashMap::new(),
                target: None,
                sequence: 0,
                waiting: Vec::new(),
                controllers,
                cluster,
            };
            runner.replay_objects();
            runtime.block_on(runner.run(events, receiver));
        })?;
        Ok(ControllerEngine { commands })
    }

    /// Returns when the controllers have nothing left to do.
    pub(crate) async fn settle(&self) {
        let (sender, done) = oneshot::channel();
        if self.commands.send(EngineCommand::Settle(sender)).is_ok() {
            let _ = done.await;
        }
    }

    pub(crate) fn advance(&self, by: Duration) {
        let _ = self.commands.send(EngineCommand::Advance(by));
    }
}

struct ItemTimer {
    controller: usize,
    item: WorkItem,
    hurry: bool,
}

struct ControllerRunner {
    controllers: Vec<Box<dyn Controller>>,
    cluster: ClusterHandle,
    queue: VecDeque<(usize, WorkItem)>,
    /// The items in the queue, to add none twice.
    queued: HashSet<(usize, WorkItem)>,
    timers: BTreeMap<(Timestamp, u64), ItemTimer>,
    /// The deadlines of an item's two timers, as keys of `timers`.
    timed: HashMap<(usize, WorkItem, bool), (Timestamp, u64)>,
    /// The time the clock is being moved to by hand.
    target: Option<Timestamp>,
    retries: HashMap<(usize, WorkItem), Duration>,
    sequence: u64,
    waiting: Vec<oneshot::Sender<()>>,
}

impl ControllerRunner {
    /// Tells the controllers of everything that was there before them.
    fn replay_objects(&mut self) {
        let (_, objects) = self.cluster.core.store.all_objects();
        for (table, object) in objects {
            let event = StoreEvent {
                rev: object.rev,
                table,
                change: ChangeType::Added,
                prev: None,
                object: object.clone(),
            };
            self.observe(&event);
        }
    }

    async fn run(
        &mut self,
        mut events: mpsc::UnboundedReceiver<Arc<StoreEvent>>,
        mut commands: mpsc::UnboundedReceiver<EngineCommand>,
    ) {
        let store = self.cluster.core.store.clone();
        let mut rollbacks = store.rollbacks();
        loop {
            if store.rollbacks() != rollbacks {
                rollbacks = store.rollbacks();
                crate::state::rebuild_derived_state(&self.cluster.core);
            }
            if store.is_failing() {
                // Whatever the controllers wrote now would be refused again.
                for waiting in self.waiting.drain(..) {
                    let _ = waiting.send(());
                }
                tokio::select! {
                    () = store.wait_until_writable() => {}
                    command = commands.recv() => match command {
                        Some(command) => self.handle_command(command),
                        None => return,
                    },
                }
                continue;
            }
            for _ in 0..BURST {
                while let Ok(event) = events.try_recv() {
                    self.observe(&event);
                }
                let Some((controller, item)) = self.queue.pop_front() else { break };
                self.queued.remove(&(controller, item.clone()));
                self.reconcile(controller, &item);
            }
            while let Ok(command) = commands.try_recv() {
                self.handle_command(command);
            }
            if commands.is_closed() {
                return;
            }
            self.fire_due();
            if !self.queue.is_empty() || !events.is_empty() {
                continue;
            }
            if self.step_clock() || self.jump_clock() {
                continue;
            }
            for waiting in self.waiting.drain(..) {
                let _ = waiting.send(());
            }
            let next = self.timers.keys().next().map(|(at, _)| *at);
            let wait = next.and_then(|at| self.cluster.core.clock.real_wait(at));
            let sleep = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.observe(&event),
                    None => return,
                },
                command = commands.recv() => match command {
                    Some(command) => self.handle_command(command),
                    None => return,
                },
                () = sleep => {}
            }
        }
    }

    fn handle_command(&mut self, command: EngineCommand) {
        match command {
            EngineCommand::Settle(sender) => self.waiting.push(sender),
            EngineCommand::Advance(by) => {
                let from = self.target.unwrap_or_else(|| self.cluster.now());
                self.target = Some(from.checked_add(by).unwrap_or(Timestamp::MAX));
            }
        }
    }

    fn observe(&mut self, event: &StoreEvent) {
        for index in 0..self.controllers.len() {
            let mut found = WorkQueue::default();
            self.controllers[index].observe_event(event, &self.cluster, &mut found);
            for item in found.0 {
                self.enqueue(index, item);
            }
        }
    }

    fn enqueue(&mut self, controller: usize, item: WorkItem) {
        let entry = (controller, item);
        if self.queued.insert(entry.clone()) {
            self.queue.push_back(entry);
        }
    }

    fn reconcile(&mut self, controller: usize, item: &WorkItem) {
        let key = (controller, item.clone());
        match self.controllers[controller].reconcile(item, &self.cluster) {
            Ok(next) => {
                self.retries.remove(&key);
                match next {
                    NextReconcile::Done => {}
                    NextReconcile::After(wait) => self.set_timer(controller, item.clone(), wait, true),
                    NextReconcile::Later(wait) => self.set_timer(controller, item.clone(), wait, false),
                }
            }
            Err(_) => {
                let wait = self.retries.get(&key).map_or(FIRST_RETRY, |w| (*w * 2).min(LONGEST_RETRY));
                self.retries.insert(key, wait);
                self.set_timer(controller, item.clone(), wait, false);
            }
        }
    }

    fn set_timer(&mut self, controller: usize, item: WorkItem, wait: Duration, hurry: bool) {
        let at = self.cluster.now().checked_add(wait).unwrap_or(Timestamp::MAX);
        // One timer per item: the sooner wins, since whoever is called early asks again.
        let whose = (controller, item.clone(), hurry);
        if let Some(known) = self.timed.get(&whose) {
            if known.0 <= at {
                return;
            }
            self.timers.remove(known);
        }
        self.sequence += 1;
        self.timed.insert(whose, (at, self.sequence));
        self.timers.insert((at, self.sequence), ItemTimer { controller, item, hurry });
    }

    fn fire_due(&mut self) {
        let now = self.cluster.now();
        while let Some(entry) = self.timers.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let timer = entry.remove();
            self.timed.remove(&(timer.controller, timer.item.clone(), timer.hurry));
            self.enqueue(timer.controller, timer.item);
        }
    }

    /// While the clock is moved by hand, moves it to the next thing that is due on the way.
    fn step_clock(&mut self) -> bool {
        let Some(target) = self.target else { return false };
        let next = self.timers.keys().next().map_or(target, |(at, _)| (*at).min(target));
        let clock = &self.cluster.core.clock;
        if let Ok(left) = Duration::try_from(next.duration_since(clock.now())) {
            clock.advance(left);
        }
        if clock.now() >= target {
            self.target = None;
        }
        true
    }

    /// At full speed, moves the clock to the next timer somebody waits for.
    fn jump_clock(&mut self) -> bool {
        let clock = &self.cluster.core.clock;
        if clock.speed() != ClockSpeed::Max {
            return false;
        }
        let Some(at) = self.timers.iter().find(|(_, t)| t.hurry).map(|((at, _), _)| *at) else {
            return false;
        };
        if let Ok(left) = Duration::try_from(at.duration_since(clock.now())) {
            clock.advance(left);
        }
        true
    }
}
