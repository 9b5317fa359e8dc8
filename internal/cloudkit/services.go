package cloudkit

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// ServicesFlag adds to a command the flag for the managed services that run Spark tasks. known are those of the cloud.
func ServicesFlag(f *pflag.FlagSet, s *Settings, known ...string) {
	f.StringSliceVar(&s.Services, "services", nil,
		"managed services that run Spark tasks, separated by commas: "+strings.Join(known, ", ")+"\n(default: none)")
}

// CheckServices returns an error if the settings of a cloud name a service that it does not have.
func (s Settings) CheckServices(cloud string) error {
	for _, name := range s.Services {
		if dag.ServiceCloud(name) != cloud {
			return fmt.Errorf("%w: services: %s has no service %q that runs Spark tasks", ErrSettings, cloud, name)
		}
	}
	return nil
}
