//! Putting a graph together, and everything that can be wrong with one.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use slipway_problem::{Location, Problem, Problems, nearest_name};

use crate::cycle;
use crate::graph::{Adjacency, Graph, GraphShape};
use crate::id::Id;

/// Looking for the nearest name costs a pass over all names, so a file of nonsense gets no more hints
/// than a person would read.
const MOST_HINTS: usize = 100;

/// Collects nodes and needs in any order, then checks them all at once.
///
/// ```
/// # use slipway_graph::Graph;
/// let mut builder = Graph::builder();
/// builder.add("web", 80, ["db"]).add("db", 5432, [""; 0]);
/// let graph = builder.build()?;
/// assert!(graph.ids().eq(["db", "web"].iter()));
/// # Ok::<(), slipway_problem::Problems>(())
/// ```
#[derive(Clone, Debug)]
pub struct GraphBuilder<N> {
    entries: Vec<Entry<N>>,
    needs: Vec<(Owner, Id)>,
}

/// The node that has a need.
#[derive(Clone, Debug)]
enum Owner {
    /// It was given together with this entry, so it need not be looked up.
    Entry(u32),
    Named(Id),
}

#[derive(Clone, Debug)]
struct Entry<N> {
    id: Id,
    node: N,
    at: Option<Location>,
}

/// One thing that is wrong with a graph, for callers that word it themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Two nodes have one id.
    Duplicate { id: Id, at: Option<Location>, first: Option<Location> },
    /// A node needs itself.
    SelfNeed { id: Id, at: Option<Location> },
    /// A node needs one that does not exist.
    UnknownNeed { id: Id, need: Id, nearest: Option<String>, at: Option<Location> },
    /// A need was declared for a node that does not exist.
    UnknownNode { id: Id, need: Id, nearest: Option<String> },
    /// Nodes need each other in a circle: each of `path` needs the next and the last needs the first,
    /// which has the smallest id.
    Cycle { path: Vec<Id>, at: Option<Location> },
    /// Beyond the cycles listed, `groups` more groups of nodes need each other in circles.
    MoreCycles { groups: usize },
}

/// A need that was not added because it would have closed a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The node it was for.
    pub id: Id,
    /// The node it was to need.
    pub need: Id,
    /// The cycle it would have closed: `id`, `need`, and so on up to a node that needs `id`.
    pub path: Vec<Id>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` cannot wait for `{}`: {}", self.id, self.need, cycle::show(&self.path))
    }
}

impl<N> GraphBuilder<N> {
    /// Starts without nodes.
    pub fn new() -> Self {
        Self { entries: Vec::new(), needs: Vec::new() }
    }

    /// Adds a node and the ids of those that must come before it, which may be added later.
    pub fn add<I>(&mut self, id: impl Into<Id>, node: N, needs: I) -> &mut Self
    where
        I: IntoIterator<Item: Into<Id>>,
    {
        let entry = self.entries.len() as u32;
        self.needs.extend(needs.into_iter().map(|need| (Owner::Entry(entry), need.into())));
        self.entries.push(Entry { id: id.into(), node, at: None });
        self
    }

    /// Says where the node added last is written.
    pub fn at(&mut self, location: Location) -> &mut Self {
        if let Some(last) = self.entries.last_mut() {
            last.at = Some(location);
        }
        self
    }

    /// Adds one more need to a node, which may be added later.
    pub fn need(&mut self, id: impl Into<Id>, need: impl Into<Id>) -> &mut Self {
        self.needs.push((Owner::Named(id.into()), need.into()));
        self
    }

    /// Adds needs that are good to have, except where they would close a cycle, and gives those it left
    /// out. Nodes and needs added before come first; among the wishes, those of smaller ids do. A wish
    /// naming an unknown node becomes a need, for [`GraphBuilder::build`] to report.
    pub fn wish(&mut self, wishes: impl IntoIterator<Item = (Id, Id)>) -> Vec<Refused> {
        let mut wishes: Vec<(Id, Id)> = wishes.into_iter().collect();
        wishes.sort_unstable();
        wishes.dedup();
        let numbers: HashMap<&str, u32> = self
            .entries
            .iter()
            .enumerate()
            .map(|(number, entry)| (entry.id.as_str(), number as u32))
            .collect();
        let number = |id: &Id| numbers.get(id.as_str()).copied();
        let owner = |owner: &Owner| match owner {
            Owner::Entry(entry) => number(&self.entries[*entry as usize].id),
            Owner::Named(id) => number(id),
        };
        let firm: Vec<(u32, u32)> =
            self.needs.iter().filter_map(|(of, need)| Some((owner(of)?, number(need)?))).collect();
        let wished: Vec<Option<(u32, u32)>> =
            wishes.iter().map(|(id, need)| Some((number(id)?, number(need)?))).collect();
        let all: Vec<(u32, u32)> = firm.iter().copied().chain(wished.iter().copied().flatten()).collect();
        let refused = cycle::closing(self.entries.len(), &firm, &wished, &all);
        let refused: Vec<Refused> = refused
            .into_iter()
            .map(|(wish, path)| Refused {
                id: wishes[wish].0.clone(),
                need: wishes[wish].1.clone(),
                path: path.into_iter().map(|number| self.entries[number as usize].id.clone()).collect(),
            })
            .collect();
        let mut left_out = refused.iter().peekable();
        for (id, need) in wishes {
            if left_out.next_if(|wish| wish.id == id && wish.need == need).is_none() {
                self.needs.push((Owner::Named(id), need));
            }
        }
        refused
    }

    /// The number of nodes added so far.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Tells that no node was added so far.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Checks everything and gives the graph, or every problem.
    pub fn build(self) -> Result<Graph<N>, Problems> {
        self.try_build().map_err(|defects| defects.into_iter().map(Problem::from).collect())
    }

    /// Checks everything and gives the graph, or every defect: duplicates in the order they were added,
    /// then bad needs in the order they were declared, then cycles by their smallest id.
    pub fn try_build(self) -> Result<Graph<N>, Vec<Defect>> {
        let Self { entries, needs } = self;
        let mut defects = Vec::new();

        // Nodes are numbered by id from here on, so nothing below depends on the order of adding.
        let mut sorted: Vec<(&str, u32)> =
            entries.iter().zip(0..).map(|(entry, number)| (entry.id.as_str(), number)).collect();
        sorted.sort_unstable();
        let mut rank = vec![0u32; entries.len()];
        let mut unique: Vec<u32> = Vec::with_capacity(sorted.len());
        let mut doubles = Vec::new();
        let mut numbers: HashMap<&str, u32> = HashMap::with_capacity(entries.len());
        for &(id, entry) in &sorted {
            let number = *numbers.entry(id).or_insert(unique.len() as u32);
            match unique.get(number as usize) {
                Some(&first) => doubles.push((entry, first)),
                None => unique.push(entry),
            }
            rank[entry as usize] = number;
        }
        drop(sorted);
        doubles.sort_unstable();
        defects.extend(doubles.into_iter().map(|(entry, first)| Defect::Duplicate {
            id: entries[entry as usize].id.clone(),
            at: entries[entry as usize].at.clone(),
            first: entries[first as usize].at.clone(),
        }));

        let mut hints = 0;
        let mut near = |name: &str| {
            hints += 1;
            let known = unique.iter().map(|&entry| entries[entry as usize].id.as_str());
            (hints <= MOST_HINTS).then(|| nearest_name(name, known).map(str::to_owned)).flatten()
        };
        let mut pairs: Vec<(u32, u32)> = Vec::with_capacity(needs.len());
        for (owner, need) in &needs {
            let (number, at) = match owner {
                Owner::Entry(entry) => (rank[*entry as usize], &entries[*entry as usize].at),
                Owner::Named(id) => match numbers.get(id.as_str()) {
                    Some(&number) => (number, &entries[unique[number as usize] as usize].at),
                    None => {
                        let nearest = near(id);
                        defects.push(Defect::UnknownNode { id: id.clone(), need: need.clone(), nearest });
                        continue;
                    }
                },
            };
            let id = || entries[unique[number as usize] as usize].id.clone();
            match numbers.get(need.as_str()) {
                Some(&needed) if needed == number => {
                    defects.push(Defect::SelfNeed { id: id(), at: at.clone() });
                }
                Some(&needed) => pairs.push((number, needed)),
                None => {
                    let nearest = near(need);
                    let (need, at) = (need.clone(), at.clone());
                    defects.push(Defect::UnknownNeed { id: id(), need, nearest, at });
                }
            }
        }
        drop(numbers);

        let ids: Vec<Id> = unique.iter().map(|&entry| entries[entry as usize].id.clone()).collect();
        let adjacency = Adjacency::new(ids.len(), &pairs);
        let arranged = GraphShape::arrange_nodes(ids, &adjacency);
        if arranged.is_none() {
            let name = |number: u32| &entries[unique[number as usize] as usize];
            let cycles = cycle::find(&adjacency);
            defects.extend(cycles.paths.into_iter().map(|path| Defect::Cycle {
                at: path.iter().find_map(|&number| name(number).at.clone()),
                path: path.into_iter().map(|number| name(number).id.clone()).collect(),
            }));
            if cycles.more > 0 {
                defects.push(Defect::MoreCycles { groups: cycles.more });
            }
        }
        let Some((shape, position)) = arranged.filter(|_| defects.is_empty()) else {
            return Err(defects);
        };

        // No duplicates: every entry has a position of its own.
        let mut nodes: Vec<(u32, N)> = entries
            .into_iter()
            .zip(rank)
            .map(|(entry, number)| (position[number as usize], entry.node))
            .collect();
        nodes.sort_unstable_by_key(|&(position, _)| position);
        Ok(Graph { shape: Arc::new(shape), nodes: nodes.into_iter().map(|(_, node)| node).collect() })
    }
}

impl<N> Default for GraphBuilder<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl From<Defect> for Problem {
    fn from(defect: Defect) -> Self {
        let (mut problem, at) = match defect {
            Defect::Duplicate { id, at, first } => {
                let mut problem = Problem::error(format!("`{id}` is defined twice"));
                if let Some(first) = first {
                    problem = problem.hint(format!("the first one is at {first}"));
                }
                (problem, at)
            }
            Defect::SelfNeed { id, at } => (Problem::error(format!("`{id}` needs itself")), at),
            Defect::UnknownNeed { id, need, nearest, at } => {
                let problem = Problem::error(format!("`{id}` needs `{need}`, which does not exist"));
                (suggest(problem, nearest), at)
            }
            Defect::UnknownNode { id, need, nearest } => {
                let problem = Problem::error(format!("`{id}`, said to need `{need}`, does not exist"));
                (suggest(problem, nearest), None)
            }
            Defect::Cycle { path, at } => {
                (Problem::error(format!("needs form a cycle: {}", cycle::show(&path))), at)
            }
            Defect::MoreCycles { groups } => {
                (Problem::error(format!("{groups} more groups of nodes need each other in circles")), None)
            }
        };
        problem.at = at;
        problem
    }
}

fn suggest(problem: Problem, nearest: Option<String>) -> Problem {
    match nearest {
        Some(name) => problem.hint(format!("did you mean `{name}`?")),
        None => problem,
    }
}
