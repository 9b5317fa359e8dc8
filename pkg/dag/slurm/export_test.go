package slurm

// StepNeedsValue reports whether the value of an srun option (long or a letter) is the next word, and whether the
// option is known.
func StepNeedsValue(option string) (needs, known bool) {
	o, known := stepOf(option)
	return o.value == needsValue, known
}
