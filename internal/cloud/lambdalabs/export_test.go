package lambdalabs

// NameOf returns the name of a machine.
var NameOf = nameOf

// ReadName returns the parts of a machine's name.
func ReadName(deployment, name string) (cluster string, rank int, belongsTo func(string) bool, ok bool) {
	n, ok := readName(deployment, name)
	return n.cluster, n.rank, n.belongsTo, ok
}
