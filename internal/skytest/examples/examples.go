// Package examples has those files of SkyPilot's repository that run where there is no GPU's driver, no conda and no
// credentials of a cloud, with what their logs say when all went well.
package examples

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed *.yaml
var files embed.FS

// Example is a file of SkyPilot's repository, as it is there, with a line that the log of each rank has when it went
// well.
type Example struct {
	Name, Body string
	Ranks      int
	Says       string
}

// Of are those that run on the cloud, "aws", "gcp" or "azure".
func Of(cloud string) []Example {
	var all []Example
	for _, e := range []struct {
		cloud string
		Example
	}{
		{"aws", Example{Name: "env_check", Ranks: 2, Says: "TEST_VAR is set to test"}},
		{"aws", Example{Name: "multi_hostname", Ranks: 2, Says: "My hostname: "}},
		{"aws", Example{Name: "managed_job", Ranks: 1, Says: "240/240"}},
		{"aws", Example{Name: "managed_spot", Ranks: 1, Says: "240/240"}},
		{"gcp", Example{Name: "gcp_start_stop", Ranks: 2, Says: "gcp_start_stop [run]"}},
		{"azure", Example{Name: "azure_start_stop", Ranks: 1, Says: "azure-start-stop [run]"}},
	} {
		if e.cloud == cloud {
			body, err := files.ReadFile(e.Name + ".yaml")
			if err != nil {
				panic(err) // it is embedded
			}
			e.Body = string(body)
			all = append(all, e.Example)
		}
	}
	return all
}

// Check says what the log of one rank lacks.
func (e Example) Check(log string) error {
	if !strings.Contains(log, e.Says) {
		return fmt.Errorf("%s: %q is not in the log:\n%s", e.Name, e.Says, log)
	}
	return nil
}
