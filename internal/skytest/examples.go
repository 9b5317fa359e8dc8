package skytest

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed examples/*.yaml
var files embed.FS

// Example is an unchanged file of SkyPilot's repository. The log of each rank contains the line Says after a
// successful run.
type Example struct {
	Name, Body string
	Ranks      int
	WantLog    string
}

// ExamplesOf returns the examples that run on the cloud, which is "aws", "gcp" or "azure".
func ExamplesOf(cloud string) []Example {
	var all []Example
	for _, e := range []struct {
		cloud string
		Example
	}{
		{"aws", Example{Name: "env_check", Ranks: 2, WantLog: "TEST_VAR is set to test"}},
		{"aws", Example{Name: "multi_hostname", Ranks: 2, WantLog: "My hostname: "}},
		{"aws", Example{Name: "managed_job", Ranks: 1, WantLog: "240/240"}},
		{"aws", Example{Name: "managed_spot", Ranks: 1, WantLog: "240/240"}},
		{"gcp", Example{Name: "gcp_start_stop", Ranks: 2, WantLog: "gcp_start_stop [run]"}},
		{"azure", Example{Name: "azure_start_stop", Ranks: 1, WantLog: "azure-start-stop [run]"}},
	} {
		if e.cloud == cloud {
			body, err := files.ReadFile("examples/" + e.Name + ".yaml")
			if err != nil {
				panic(err) // it is embedded
			}
			e.Body = string(body)
			all = append(all, e.Example)
		}
	}
	return all
}

// Check returns an error if the log of a rank does not contain the expected line.
func (e Example) Check(log string) error {
	if !strings.Contains(log, e.WantLog) {
		return fmt.Errorf("%s: %q is not in the log:\n%s", e.Name, e.WantLog, log)
	}
	return nil
}
