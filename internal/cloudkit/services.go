package cloudkit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
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

// ServicesOf returns opened services. Their check lists the places of each service, which needs its API and the right
// to use it.
func ServicesOf(all map[string]service.Service, s Settings) *Services {
	lacks := func(ctx context.Context) (missing []driver.Lack) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if _, err := all[name].Places(ctx); err != nil {
				missing = append(missing, driver.Lack{What: fmt.Sprintf("%s: %v", name, err)})
			}
		}
		if len(s.Stores) == 0 {
			missing = append(missing, driver.Lack{
				What: "services read and write only buckets of their cloud, and the settings name none",
				Mend: "add --bucket, or --stores REGION=BUCKET",
			})
		}
		return missing
	}
	return &Services{Of: all, Lacks: lacks}
}
