// Package driver is the common part of the cloud drivers: validation before the first request, the list of ended
// clusters, the boot script of a machine, and a lock per cluster.
package driver

import (
	"errors"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/names"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Codes of the drivers' own failures; all other codes come from the cloud.
const (
	CodeTerminated = "ClusterTerminated" // the cluster's name was used before
	CodeLost       = "ClusterLost"       // machines of an earlier launch have ended since
	CodeBadSpec    = "InvalidLaunch"     // no cloud could launch it
	codeNoAgent    = "NoAgent"           // there is no agent for the architecture
)

// ValidCluster reports whether a cluster may have this name. The name becomes the value of a tag and is matched
// exactly.
func ValidCluster(name string) bool {
	const signs = "._:/=+@-"
	return names.Made(name, 1, 255, names.Alnum+signs) && !strings.Contains(signs, name[:1])
}

// Check returns an error of kind Invalid for a spec that no cloud could launch; name is the cloud's.
func Check(name string, spec cloud.LaunchSpec) error {
	refuse := func(format string, args ...any) error {
		return cloud.Errorf(name, cloud.Invalid, CodeBadSpec, format, args...)
	}
	o := spec.Offer
	switch {
	case !ValidCluster(spec.Cluster):
		return refuse("invalid cluster name %.300q", spec.Cluster)
	case o.Cloud != name:
		return refuse("the offer is from cloud %q", o.Cloud)
	case o.Region == "" || o.InstanceType == "":
		return refuse("the offer has no region or no machine type")
	case spec.Nodes < 1:
		return refuse("%d machines", spec.Nodes)
	case len(spec.Bootstrap.Tokens) != spec.Nodes:
		return refuse("%d tokens for %d machines", len(spec.Bootstrap.Tokens), spec.Nodes)
	case spec.Bootstrap.Endpoint == "":
		return refuse("no endpoint for agents")
	}
	return nil
}

// WithMade records in err the number of machines that had been made before the error. err is, or wraps, a
// *cloud.Error.
func WithMade(err error, made int) error {
	var e *cloud.Error
	if errors.As(err, &e) && made > e.Late {
		e.Late = made
	}
	return err
}

// Terminated is the error for launching a cluster that was terminated.
func Terminated(name, cluster string) error {
	return cloud.Errorf(name, cloud.Invalid, CodeTerminated, "cluster %s was terminated", cluster)
}
