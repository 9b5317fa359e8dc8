// Layered drawing of a DAG from left to right: tasks in levels by the longest path to them, ordered to cross few edges, and placed
// as near to their neighbours as the order allows (after Sugiyama, Tagawa and Toda, 1981). Sizes are in pixels.

// levels returns for each task the length of the longest path to it. after[i] lists the tasks that i waits for.
export function levels(after) {
  const n = after.length;
  const children = Array.from({ length: n }, () => []);
  const missing = after.map((ps) => ps.length);
  after.forEach((ps, i) => ps.forEach((p) => children[p].push(i)));
  const level = new Array(n).fill(0);
  const ready = [];
  missing.forEach((m, i) => m === 0 && ready.push(i));
  for (let k = 0; k < ready.length; k++) {
    const i = ready[k];
    for (const c of children[i]) {
      level[c] = Math.max(level[c], level[i] + 1);
      if (--missing[c] === 0) ready.push(c);
    }
  }
  return level;
}

const MAX_BENDS = 4000; // with more bends, long edges are drawn straight

// layout places every task. It returns the nodes by index with x, y, w, h, the edges with their points, and the size of the whole.
export function layout(after, size) {
  const level = levels(after);
  const layers = [];
  const cells = level.map((l, i) => ({ task: i, level: l, h: size.h, up: [], down: [] }));
  for (const c of cells) (layers[c.level] ??= []).push(c);
  const edges = connect(after, cells, layers, size);
  layers.forEach((layer) => layer.forEach((c, k) => (c.order = k)));
  uncross(layers);
  settle(layers, size);
  const top = Math.min(...layers.flat().map((c) => c.y - c.h / 2));
  const bottom = Math.max(...layers.flat().map((c) => c.y + c.h / 2));
  const x = (c) => c.level * (size.w + size.gapX);
  return {
    nodes: cells.map((c) => ({ x: x(c), y: c.y - c.h / 2 - top, w: size.w, h: size.h, level: c.level, order: c.order })),
    edges: edges.map((e) => ({
      from: e.from, to: e.to,
      points: e.chain.flatMap((c) => {
        const y = c.y - top;
        if (c.task === e.from) return [[x(c) + size.w, y]];
        if (c.task === e.to) return [[x(c), y]];
        return [[x(c), y], [x(c) + size.w, y]]; // pass through the level between its tasks
      }),
    })),
    width: layers.length * (size.w + size.gapX) - size.gapX,
    height: bottom - top,
  };
}

// connect joins cells of neighbouring levels, with a bend in each level that an edge passes.
function connect(after, cells, layers, size) {
  let bends = 0;
  after.forEach((ps, i) => ps.forEach((p) => (bends += cells[i].level - cells[p].level - 1)));
  const edges = [];
  after.forEach((ps, i) => ps.forEach((p) => {
    const chain = [cells[p]];
    for (let l = cells[p].level + 1; bends <= MAX_BENDS && l < cells[i].level; l++) {
      const bend = { task: -1, level: l, h: size.bend, up: [], down: [] };
      layers[l].push(bend);
      chain.push(bend);
    }
    chain.push(cells[i]);
    for (let k = 1; k < chain.length; k++) {
      chain[k - 1].down.push(chain[k]);
      chain[k].up.push(chain[k - 1]);
    }
    edges.push({ from: p, to: i, chain });
  }));
  return edges;
}

// uncross sorts each level by the mean position of its neighbours, in alternating directions.
function uncross(layers) {
  const sort = (layer, side) => {
    for (const c of layer) {
      const near = c[side];
      c.key = near.length ? near.reduce((sum, n) => sum + n.order, 0) / near.length : c.order;
    }
    layer.sort((a, b) => a.key - b.key || a.order - b.order);
    layer.forEach((c, k) => (c.order = k));
  };
  for (let round = 0; round < 6; round++) {
    for (let l = 1; l < layers.length; l++) sort(layers[l], 'up');
    for (let l = layers.length - 2; l >= 0; l--) sort(layers[l], 'down');
  }
}

// settle moves each cell as near to its neighbours as the order of its level allows.
function settle(layers, size) {
  for (const layer of layers) {
    let y = 0;
    for (const c of layer) {
      c.y = y + c.h / 2;
      y += c.h + size.gapY;
    }
    for (const c of layer) c.y -= y / 2;
  }
  const pull = (layer, sides) => {
    const want = layer.map((c) => {
      const near = sides.flatMap((side) => c[side]);
      return near.length ? near.reduce((sum, n) => sum + n.y, 0) / near.length : c.y;
    });
    const places = spread(want, layer.map((c) => c.h), size.gapY);
    layer.forEach((c, k) => (c.y = places[k]));
  };
  for (let round = 0; round < 4; round++) {
    for (let l = 1; l < layers.length; l++) pull(layers[l], ['up']);
    for (let l = layers.length - 2; l >= 0; l--) pull(layers[l], ['down']);
  }
  for (const layer of layers) pull(layer, ['up', 'down']);
}

// spread returns the positions nearest to the wanted ones (least squares) at which boxes of the given heights do not overlap: an
// isotonic regression by the pool-adjacent-violators algorithm.
export function spread(want, heights, gap) {
  const offsets = [];
  let sum = 0;
  heights.forEach((h, k) => {
    if (k > 0) sum += heights[k - 1] / 2 + gap + h / 2;
    offsets.push(sum);
  });
  const pools = [];
  want.forEach((w, k) => {
    let pool = { total: w - offsets[k], n: 1 };
    while (pools.length && pools.at(-1).total / pools.at(-1).n > pool.total / pool.n) {
      const before = pools.pop();
      pool = { total: before.total + pool.total, n: before.n + pool.n };
    }
    pools.push(pool);
  });
  const places = [];
  for (const p of pools) {
    for (let k = 0; k < p.n; k++) places.push(p.total / p.n + offsets[places.length]);
  }
  return places;
}

// blocks places the tasks of a DAG whose levels are too wide for one column: each level is a block of columns, and the height of the
// blocks is chosen so that the drawing best fits a window of the given shape (width to height), unless it is given: rows. Edges are
// straight lines.
export function blocks(after, size, shape, rows) {
  const level = levels(after);
  const layers = [];
  const cells = level.map((l, i) => ({ task: i, level: l, up: [], down: [] }));
  for (const c of cells) (layers[c.level] ??= []).push(c);
  after.forEach((ps, i) => ps.forEach((p) => {
    cells[p].down.push(cells[i]);
    cells[i].up.push(cells[p]);
  }));
  layers.forEach((layer) => layer.forEach((c, k) => (c.order = k)));
  uncross(layers);
  const column = size.w + size.gapY;
  const row = size.h + size.gapY;
  const width = (rows) => layers.reduce((sum, layer) => sum + Math.ceil(layer.length / rows) * column - size.gapY, 0) + (layers.length - 1) * size.gapX;
  let best = rows ?? 1;
  let least = Infinity;
  for (let n = 1; !rows && n <= Math.max(...layers.map((l) => l.length)); n++) {
    const scale = Math.max(width(n) / shape, n * row);
    if (scale < least) [least, best] = [scale, n];
  }
  const nodes = [];
  let x = 0;
  for (const layer of layers) {
    const rows = Math.min(layer.length, best);
    layer.forEach((c, k) => {
      nodes[c.task] = { x: x + Math.floor(k / rows) * column, y: (k % rows) * row + ((best - rows) * row) / 2, w: size.w, h: size.h, level: c.level, order: k };
    });
    x += Math.ceil(layer.length / rows) * column - size.gapY + size.gapX;
  }
  const edges = after.flatMap((ps, i) => ps.map((p) => ({
    from: p, to: i, points: [[nodes[p].x + size.w, nodes[p].y + size.h / 2], [nodes[i].x, nodes[i].y + size.h / 2]],
  })));
  return { nodes, edges, width: x - size.gapX, height: best * row - size.gapY };
}

// widest is the number of tasks in the widest level.
export function widest(after) {
  const counts = [];
  for (const l of levels(after)) counts[l] = (counts[l] ?? 0) + 1;
  return Math.max(...counts);
}

// collapse folds a DAG into one node for each level, for jobs with too many tasks to draw. It returns the tasks of each level, and
// after, the dependencies between levels.
export function collapse(after) {
  const level = levels(after);
  const members = [];
  level.forEach((l, i) => (members[l] ??= []).push(i));
  const follows = members.map(() => new Set());
  after.forEach((ps, i) => ps.forEach((p) => follows[level[i]].add(level[p])));
  return { members, after: follows.map((f) => [...f].sort((a, b) => a - b)) };
}
