// Package driver is what the drivers of clouds have in common: what they refuse before they ask anybody, which clusters
// they have ended, what a machine is told when it boots, and one thing at a time to a cluster.
package driver

import (
	"errors"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/names"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Codes of the drivers' own failures; all others are the cloud's.
const (
	CodeTerminated = "ClusterTerminated" // the cluster's name was used before
	CodeLost       = "ClusterLost"       // machines of an earlier launch have ended meanwhile
	CodeBadSpec    = "InvalidLaunch"     // no cloud could launch it
)

// ValidCluster says whether a cluster may have this name. It is a tag's value, which is looked for to the letter.
func ValidCluster(name string) bool {
	const signs = "._:/=+@-"
	return names.Made(name, 1, 255, names.Alnum+signs) && !strings.Contains(signs, name[:1])
}

// Check refuses what no cloud could launch, with an error of kind Invalid; name is the cloud's.
func Check(name string, spec cloud.LaunchSpec) error {
	refuse := func(format string, args ...any) error {
		return cloud.Errorf(name, cloud.Invalid, CodeBadSpec, format, args...)
	}
	o := spec.Offer
	switch {
	case !ValidCluster(spec.Cluster):
		return refuse("a cluster cannot be called %.300q", spec.Cluster)
	case o.Cloud != name:
		return refuse("the offer is of %q", o.Cloud)
	case o.Region == "" || o.InstanceType == "":
		return refuse("the offer names no region or no machine type")
	case spec.Nodes < 1:
		return refuse("%d machines", spec.Nodes)
	case len(spec.Bootstrap.Tokens) != spec.Nodes:
		return refuse("%d tokens for %d machines", len(spec.Bootstrap.Tokens), spec.Nodes)
	case spec.Bootstrap.Endpoint == "":
		return refuse("no endpoint for agents")
	}
	return nil
}

// Late says of a failure how many machines had been made when it came; err is to be a *cloud.Error, or to wrap one.
func Late(err error, made int) error {
	var e *cloud.Error
	if errors.As(err, &e) && made > e.Late {
		e.Late = made
	}
	return err
}

// Terminated is the failure of launching a cluster that was terminated.
func Terminated(name, cluster string) error {
	return cloud.Errorf(name, cloud.Invalid, CodeTerminated, "cluster %s was terminated", cluster)
}
