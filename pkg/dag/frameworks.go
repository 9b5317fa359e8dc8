package dag

import (
	"strings"

	"github.com/tradewind-broker/tradewind/internal/fault"
)

// Framework is a framework for work on several machines, each of which wants to hear in words of its own where the
// others are.
type Framework string

// The frameworks whose words are known.
const (
	PyTorch    Framework = "pytorch"
	TensorFlow Framework = "tensorflow"
	MPI        Framework = "mpi"
	Horovod    Framework = "horovod"
	Ray        Framework = "ray"
	Spark      Framework = "spark"
	Dask       Framework = "dask"
)

// frameworks are all that are known, in the order in which people are told.
var frameworks = []Framework{PyTorch, TensorFlow, MPI, Horovod, Ray, Spark, Dask}

// Check says what is wrong with a framework.
func (f Framework) Check() error { return fault.CheckWord("framework", f, frameworks...) }

// RoleVariable is a role's name as variables have it: in capitals, with _ for what they can not have.
func RoleVariable(role string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, role)
}
