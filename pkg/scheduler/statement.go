package scheduler

// Statement collects the decisions for one job until it is clear whether all of them can be made. The session sees them
// at once; Discard undoes them completely.
type Statement struct {
	s   *Session
	ops []op
}

type opKind uint8

const (
	opAllocate opKind = iota
	opPipeline
	opEvict
	opVoid // undone individually
)

type op struct {
	kind opKind
	task *TaskInfo
	from State // state before an eviction
	by   *JobInfo
	why  string
}

// Statement returns a new, empty statement.
func (s *Session) Statement() *Statement { return &Statement{s: s} }

// Allocate gives a pending task idle resources of a node. The task must fit.
func (st *Statement) Allocate(t *TaskInfo, n *NodeInfo) {
	st.s.give(t, n, Allocated)
	st.ops = append(st.ops, op{kind: opAllocate, task: t})
}

// Pipeline gives a pending task resources that are being released on a node.
func (st *Statement) Pipeline(t *TaskInfo, n *NodeInfo) {
	st.s.give(t, n, Pipelined)
	st.ops = append(st.ops, op{kind: opPipeline, task: t})
}

// Evict makes a binding, bound or running task release its resources.
func (st *Statement) Evict(t *TaskInfo, by *JobInfo, why string) {
	st.ops = append(st.ops, op{kind: opEvict, task: t, from: t.State, by: by, why: why})
	st.s.evict(t)
}

// unevict undoes one eviction and keeps later decisions.
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

// mark returns a point for undoTo.
func (st *Statement) mark() int { return len(st.ops) }

// undoTo undoes all decisions since a mark.
func (st *Statement) undoTo(mark int) {
	for i := len(st.ops) - 1; i >= mark; i-- {
		st.undo(&st.ops[i])
	}
	st.ops = st.ops[:mark]
}

// Discard undoes all decisions.
func (st *Statement) Discard() { st.undoTo(0) }

// Commit makes the decisions part of the session's result.
func (st *Statement) Commit() {
	for i := range st.ops {
		if o := &st.ops[i]; o.kind == opEvict {
			st.s.evicted = append(st.s.evicted, eviction{o.task, o.by, o.why})
		}
	}
	st.s.commits++
	st.ops = st.ops[:0]
}

// Len returns the number of uncommitted decisions.
func (st *Statement) Len() int { return len(st.ops) }
