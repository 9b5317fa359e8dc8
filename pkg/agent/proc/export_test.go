package proc

// PID is the number of the process at the root.
func (t *Tree) PID() int { return t.pid }
