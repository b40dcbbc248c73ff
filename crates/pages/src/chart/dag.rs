//! The stages of a job as boxes, from left to right, with lines as wide as what flows between them.
//!
//! A stage stands right of all that it reads. A line over several columns goes through a place of its own in each, so that it
//! crosses no box. Places in a column follow the middle of what they are connected with.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use maud::{Markup, html};

use crate::text::{place, short};

/// Of more stages no picture helps, nor of lines that pass more columns.
pub(crate) const AT_MOST: usize = 200;
const PASSED: usize = 2000;
const WIDTH: f64 = 190.0;
const BOX: f64 = 72.0;
const GAP_X: f64 = 64.0;
const GAP_Y: f64 = 18.0;
/// The height that a line takes in a column that it only passes.
const PASSING: f64 = 8.0;

/// A stage as it is drawn.
pub(crate) struct Node {
    pub(crate) id: u32,
    pub(crate) title: String,
    /// At the right of the title.
    pub(crate) duration: String,
    pub(crate) name: String,
    pub(crate) bytes: String,
    /// Its part of the longest of all, from 0 to 1.
    pub(crate) part: f64,
    pub(crate) class: &'static str,
    pub(crate) link: String,
    /// Those it reads, by their ids.
    pub(crate) parents: Vec<u32>,
    /// What it writes for others, and how to say that.
    pub(crate) flows: (u64, String),
}

/// A box, or a place that a line passes.
struct Spot {
    layer: usize,
    node: Option<usize>,
    /// Spots of the layer before.
    before: Vec<usize>,
    y: f64,
}

impl Spot {
    fn height(&self) -> f64 {
        if self.node.is_some() { BOX } else { PASSING }
    }

    fn middle(&self) -> f64 {
        self.y + self.height() / 2.0
    }
}

/// The longest way to each node. A log may say that stages read each other: then they stand where they stand.
fn layers(nodes: &[Node], places: &BTreeMap<u32, usize>) -> Vec<usize> {
    let mut layers = vec![0; nodes.len()];
    for _ in 0..nodes.len() {
        let mut changed = false;
        for (index, node) in nodes.iter().enumerate() {
            let parents = node.parents.iter().filter_map(|parent| places.get(parent));
            let wanted =
                parents.map(|parent| layers[*parent] + 1).max().unwrap_or(0).min(nodes.len());
            changed |= wanted > layers[index];
            layers[index] = layers[index].max(wanted);
        }
        if !changed {
            break;
        }
    }
    layers
}

/// The spots of all layers, and for each node and parent the spots of the line between.
struct Layout {
    spots: Vec<Spot>,
    lines: Vec<(usize, Vec<usize>)>,
    layers: Vec<Vec<usize>>,
}

impl Layout {
    /// `None`: too many lines.
    fn of(nodes: &[Node]) -> Option<Self> {
        let places: BTreeMap<u32, usize> =
            nodes.iter().enumerate().map(|(index, node)| (node.id, index)).collect();
        let layer_of = layers(nodes, &places);
        let parents = |node: &Node| -> BTreeSet<usize> {
            node.parents.iter().filter_map(|parent| places.get(parent)).copied().collect()
        };
        let passed = nodes.iter().zip(&layer_of).map(|(node, layer)| {
            parents(node)
                .iter()
                .map(|parent| 1 + layer.saturating_sub(layer_of[*parent]))
                .sum::<usize>()
        });
        if passed.sum::<usize>() > PASSED {
            return None;
        }
        let spot = |(index, layer): (usize, &usize)| Spot {
            layer: *layer,
            node: Some(index),
            before: Vec::new(),
            y: 0.0,
        };
        let mut layout = Layout {
            spots: layer_of.iter().enumerate().map(spot).collect(),
            lines: Vec::new(),
            layers: Vec::new(),
        };
        for (child, node) in nodes.iter().enumerate() {
            parents(node).into_iter().for_each(|parent| layout.line(parent, child));
        }
        let count = layout.spots.iter().map(|spot| spot.layer + 1).max().unwrap_or(0);
        layout.layers = vec![Vec::new(); count];
        for (index, spot) in layout.spots.iter().enumerate() {
            layout.layers[spot.layer].push(index);
        }
        (0..4).for_each(|round| layout.arrange(round % 2 == 0));
        Some(layout)
    }

    fn line(&mut self, parent: usize, child: usize) {
        let (from, to) = (self.spots[parent].layer, self.spots[child].layer);
        let mut way = vec![parent];
        for layer in from + 1..to {
            let before = vec![way[way.len() - 1]];
            self.spots.push(Spot { layer, node: None, before, y: 0.0 });
            way.push(self.spots.len() - 1);
        }
        self.spots[child].before.push(way[way.len() - 1]);
        way.push(child);
        self.lines.push((parent, way));
    }

    /// Sorts each layer by the middle of its neighbours, and gives everything its place.
    fn arrange(&mut self, forward: bool) {
        let mut after = vec![Vec::new(); self.spots.len()];
        for (index, spot) in self.spots.iter().enumerate() {
            spot.before.iter().for_each(|before| after[*before].push(index));
        }
        for layer in 0..self.layers.len() {
            let layer = if forward { layer } else { self.layers.len() - 1 - layer };
            let mut row = std::mem::take(&mut self.layers[layer]);
            let middle = |spot: &usize| {
                let near = if forward { &self.spots[*spot].before } else { &after[*spot] };
                match near.is_empty() {
                    true => self.spots[*spot].middle(),
                    false => {
                        near.iter().map(|it| self.spots[*it].middle()).sum::<f64>()
                            / near.len() as f64
                    }
                }
            };
            let mut keyed: Vec<(f64, usize)> =
                row.iter().map(|spot| (middle(spot), *spot)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            row.clear();
            let mut y = 0.0;
            for (wanted, spot) in keyed {
                let spot_of = &mut self.spots[spot];
                spot_of.y = if forward {
                    (wanted - spot_of.height() / 2.0).max(y)
                } else {
                    y.max(spot_of.y.min(wanted - spot_of.height() / 2.0))
                };
                y = spot_of.y + spot_of.height() + GAP_Y;
                row.push(spot);
            }
            self.layers[layer] = row;
        }
    }

    fn height(&self) -> f64 {
        self.spots.iter().map(|spot| spot.y + spot.height()).fold(0.0, f64::max)
    }

    fn x(&self, spot: usize) -> f64 {
        self.spots[spot].layer as f64 * (WIDTH + GAP_X)
    }

    /// A smooth line through all its spots.
    fn path(&self, way: &[usize]) -> String {
        let mut path = String::new();
        for pair in way.windows(2) {
            let (from, to) = (&self.spots[pair[0]], &self.spots[pair[1]]);
            let (x1, y1) = (self.x(pair[0]) + WIDTH, from.middle());
            let (x2, y2) = (self.x(pair[1]), to.middle());
            if from.node.is_some() {
                let _ = write!(path, "M{} {}", place(x1), place(y1));
            } else {
                let _ = write!(path, "H{}", place(x1));
            }
            let bend = place((x1 + x2) / 2.0);
            let _ = write!(
                path,
                "C{bend} {} {bend} {} {} {}",
                place(y1),
                place(y2),
                place(x2),
                place(y2)
            );
        }
        path
    }
}

/// The picture; its own width, in a part of the page that can be scrolled.
pub(crate) fn draw(nodes: &[Node]) -> Markup {
    let Some(layout) = Layout::of(nodes) else {
        return html! { p.dim { "A picture of so many lines between stages would help nobody: see the table." } };
    };
    let (width, height) = (layout.layers.len() as f64 * (WIDTH + GAP_X) - GAP_X, layout.height());
    let most = nodes.iter().map(|node| node.flows.0).max().unwrap_or(0).max(1) as f64;
    html! {
        div.scroll role="region" aria-label="Stages of the job" tabindex="0" {
            svg.dag width=(place(width + 8.0)) height=(place(height + 8.0)) viewBox=(format!("-4 -4 {} {}", place(width + 8.0), place(height + 8.0))) role="group" aria-label="Stages and what flows between them" {
                @for (parent, way) in &layout.lines {
                    path.flow d=(layout.path(way)) stroke-width=(place(1.5 + 6.0 * nodes[*parent].flows.0 as f64 / most)) {}
                }
                @for (index, node) in nodes.iter().enumerate() {
                    (stage(node, layout.x(index), layout.spots[index].y))
                    @if node.flows.0 > 0 && layout.lines.iter().any(|(parent, _)| *parent == index) {
                        text.flows x=(place(layout.x(index) + WIDTH + 4.0)) y=(place(layout.spots[index].middle() - 7.0)) { (node.flows.1) }
                    }
                }
            }
        }
    }
}

fn stage(node: &Node, x: f64, y: f64) -> Markup {
    html! {
        a href=(node.link) {
            g transform=(format!("translate({} {})", place(x), place(y))) {
                title { (node.name) }
                rect class=(format!("stage {}", node.class)) width=(WIDTH) height=(BOX) rx="6" {}
                text.title x="10" y="19" { (node.title) }
                text.duration x=(WIDTH - 10.0) y="19" text-anchor="end" { (node.duration) }
                text.name x="10" y="36" { (short(&node.name, 27)) }
                text.bytes x="10" y="52" { (short(&node.bytes, 32)) }
                rect.rest x="10" y="60" width=(WIDTH - 20.0) height="5" {}
                rect.c-cpu x="10" y="60" width=(place((WIDTH - 20.0) * node.part.clamp(0.0, 1.0))) height="5" {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u32, parents: &[u32]) -> Node {
        Node {
            id,
            title: format!("Stage {id}"),
            duration: String::new(),
            name: String::new(),
            bytes: String::new(),
            part: 0.5,
            class: "",
            link: String::new(),
            parents: parents.to_vec(),
            flows: (0, String::new()),
        }
    }

    #[test]
    fn boxes_and_passing_lines_never_overlap() {
        let nodes: Vec<Node> = (0..60u32)
            .map(|id| {
                let parents: Vec<u32> = [id / 2, id * 7 % id.max(1)]
                    .into_iter()
                    .filter(|parent| *parent < id)
                    .collect();
                node(id, &parents)
            })
            .collect();
        let layout = Layout::of(&nodes).unwrap();
        for row in &layout.layers {
            for pair in row.windows(2) {
                let (above, below) = (&layout.spots[pair[0]], &layout.spots[pair[1]]);
                assert!(above.y + above.height() <= below.y);
            }
        }
        assert!(layout.lines.iter().all(|(_, way)| {
            way.windows(2).all(|pair| layout.spots[pair[0]].layer < layout.spots[pair[1]].layer)
        }));
    }

    #[test]
    fn a_log_whose_stages_all_read_each_other_costs_a_sentence() {
        let all: Vec<u32> = (0..200).collect();
        let nodes: Vec<Node> = (0..200u32).map(|id| node(id, &all[..id as usize])).collect();
        assert!(draw(&nodes).into_string().contains("so many lines"));
        // The same parent again and again is one line.
        let twice = [node(0, &[]), node(1, &[0; 100_000])];
        assert_eq!(Layout::of(&twice).unwrap().lines.len(), 1);
    }

    #[test]
    fn stages_that_read_each_other_are_drawn_all_the_same() {
        let text = draw(&[node(1, &[2, 9]), node(2, &[1])]).into_string();
        assert!(text.contains("Stage 1") && text.contains("Stage 2"));
        draw(&[]);
    }
}
