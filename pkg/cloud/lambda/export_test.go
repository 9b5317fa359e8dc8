package lambda

// NameOf is what a machine is called.
var NameOf = nameOf

// ReadName tells the parts of a machine's name.
func ReadName(deployment, name string) (cluster string, rank int, of func(string) bool, ok bool) {
	n, ok := readName(deployment, name)
	return n.cluster, n.rank, n.of, ok
}
