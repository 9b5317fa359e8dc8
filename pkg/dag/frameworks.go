package dag

import (
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
)

// Framework is a framework for programs on several machines. Each framework expects the addresses of the other
// machines in its own environment variables.
type Framework string

// The supported frameworks.
const (
	PyTorch    Framework = "pytorch"
	TensorFlow Framework = "tensorflow"
	MPI        Framework = "mpi"
	Horovod    Framework = "horovod"
	Ray        Framework = "ray"
	Spark      Framework = "spark"
	Dask       Framework = "dask"
)

// frameworks are all known frameworks, in the order in which messages list them.
var frameworks = []Framework{PyTorch, TensorFlow, MPI, Horovod, Ray, Spark, Dask}

// Check returns an error if f is not one of the frameworks.
func (f Framework) Check() error { return fault.CheckWord("framework", f, frameworks...) }

// RoleVariable returns a role's name as a part of variable names: in capitals, with _ for invalid characters.
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
