package proc

// PID returns the PID of the tree's first process.
func (t *Tree) PID() int { return t.pid }
