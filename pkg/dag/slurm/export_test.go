package slurm

// StepNeedsValue reports whether an option of srun, long or a letter, has a value in the next word, and whether it is
// known.
func StepNeedsValue(option string) (needs, known bool) {
	o, known := stepOf(option)
	return o.value == needsValue, known
}
