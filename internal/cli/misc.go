package cli

import (
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

// VersionResult is what `version -o json` prints.
type VersionResult struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the source
	Modified bool   `json:"modified,omitempty"` // the source was not as committed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) versionCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "version", Short: "Say which version this is",
		Long:    "Says which version of Tradewind this is, and what it was built from and with.",
		Example: "  tradewind version\n  tradewind version -o json",
		Args:    args(0, 0),
	}
	output := outputFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		v := a.version()
		if output.json() {
			return a.printJSON(v)
		}
		line := "tradewind " + v.Version + " (" + v.Go + ", " + v.Platform
		if v.Revision != "" {
			line += ", " + v.Revision[:min(len(v.Revision), 12)]
		}
		return a.printf("%s)\n", line)
	}
	return c
}

func (a *app) version() VersionResult {
	v := VersionResult{Version: a.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Revision = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	return v
}

func (a *app) convertCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "convert FILE",
		Short: "Write a DAG of any form as Tradewind YAML",
		Long: "Reads the DAG in FILE (SkyPilot YAML, WfCommons JSON, Pegasus DAX, or Tradewind's own) and writes it\n" +
			"as Tradewind YAML. - is standard input. What the file asks for that has no counterpart here is told\non standard error.",
		Example: "  tradewind convert task.sky.yaml > task.yaml\n  tradewind convert Montage_25.xml.gz --out montage.yaml",
		Args:    args(1, 1), ValidArgsFunction: completeFile,
	}
	c.Flags().StringVar(&out, "out", "", "write to this file instead of standard output")
	c.RunE = func(_ *cobra.Command, given []string) error {
		f, err := a.readJob(given[0])
		if err != nil {
			return err
		}
		body, err := native.Marshal(f.spec)
		if err != nil {
			return err
		}
		a.warn(f.spec.Warnings)
		if out == "" {
			_, err = a.Out.Write(body)
			return err
		}
		if err := writeFile(out, func(w io.Writer) error { _, err := w.Write(body); return err }); err != nil {
			return err
		}
		a.tell("wrote %s to %s", text.Count(len(f.spec.Tasks), "task"), out)
		return nil
	}
	return c
}

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of Tradewind YAML, for editors",
		Long: "Prints the JSON Schema (draft 2020-12) of Tradewind's own job files. Editors that know it complete\n" +
			"field names and underline mistakes: begin a file with\n\n" +
			"  # yaml-language-server: $schema=tradewind.schema.json",
		Example: "  tradewind schema > tradewind.schema.json",
		Args:    args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			_, err := a.Out.Write(native.Schema())
			return err
		},
	}
}
