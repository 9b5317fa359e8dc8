package scheduler

// Statement holds what is decided for one job until it is known whether all of it can be. What it did is seen by the
// session at once; Discard leaves nothing of it.
type Statement struct {
	s   *Session
	ops []op
}

type opKind uint8

const (
	opAllocate opKind = iota
	opPipeline
	opEvict
	opVoid // undone in the middle
)

type op struct {
	kind opKind
	task *TaskInfo
	from State // of what was evicted
	by   *JobInfo
	why  string
}

// Statement begins a statement.
func (s *Session) Statement() *Statement { return &Statement{s: s} }

// Allocate gives a pending task idle resources of a node on which it fits.
func (st *Statement) Allocate(t *TaskInfo, n *NodeInfo) {
	st.s.give(t, n, Allocated)
	st.ops = append(st.ops, op{kind: opAllocate, task: t})
}

// Pipeline gives a pending task what is being released on a node.
func (st *Statement) Pipeline(t *TaskInfo, n *NodeInfo) {
	st.s.give(t, n, Pipelined)
	st.ops = append(st.ops, op{kind: opPipeline, task: t})
}

// Evict has a task that binds, is bound or runs give back what it holds.
func (st *Statement) Evict(t *TaskInfo, by *JobInfo, why string) {
	st.ops = append(st.ops, op{kind: opEvict, task: t, from: t.State, by: by, why: why})
	st.s.evict(t)
}

// unevict takes one eviction back, whatever was decided after it.
func (st *Statement) unevict(t *TaskInfo) {
	for i := len(st.ops) - 1; i >= 0; i-- {
		if o := &st.ops[i]; o.kind == opEvict && o.task == t {
			st.undo(o)
			o.kind = opVoid
			return
		}
	}
}

func (st *Statement) undo(o *op) {
	switch o.kind {
	case opAllocate, opPipeline:
		st.s.takeBack(o.task)
	case opEvict:
		st.s.unevict(o.task, o.from)
	case opVoid:
	}
}

// mark is a point to go back to.
func (st *Statement) mark() int { return len(st.ops) }

// back undoes all since a mark.
func (st *Statement) back(mark int) {
	for i := len(st.ops) - 1; i >= mark; i-- {
		st.undo(&st.ops[i])
	}
	st.ops = st.ops[:mark]
}

// Discard undoes all.
func (st *Statement) Discard() { st.back(0) }

// Commit makes it part of the session's result.
func (st *Statement) Commit() {
	for i := range st.ops {
		if o := &st.ops[i]; o.kind == opEvict {
			st.s.evicted = append(st.s.evicted, eviction{o.task, o.by, o.why})
		}
	}
	st.s.commits++
	st.ops = st.ops[:0]
}

// Len returns how many decisions it holds.
func (st *Statement) Len() int { return len(st.ops) }
