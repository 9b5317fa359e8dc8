package planning

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/jobfile"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

// Convert is the command convert.
func Convert(in *command.App) *cobra.Command {
	a := app{in}
	var out string
	c := &cobra.Command{
		Use:   "convert FILE",
		Short: "Write a DAG of any form as Tradewind YAML",
		Long: "Reads the DAG in FILE (SkyPilot YAML, Kubernetes manifests, WfCommons JSON, Pegasus DAX, or Tradewind's\n" +
			"own) and writes it as Tradewind YAML. - is standard input. What the file asks for that has no counterpart here is told\n" +
			"on standard error.",
		Example: "  tradewind convert task.sky.yaml > task.yaml\n" +
			"  tradewind convert job.k8s.yaml > job.yaml\n" +
			"  tradewind convert Montage_25.xml.gz --out montage.yaml",
		Args: command.Args(1, 1), ValidArgsFunction: command.CompleteFile,
	}
	c.Flags().StringVar(&out, "out", "", "write to this file instead of standard output")
	c.RunE = func(_ *cobra.Command, given []string) error {
		f, err := jobfile.Read(a.App, given[0])
		if err != nil {
			return err
		}
		body, err := native.Marshal(f.Spec)
		if err != nil {
			return err
		}
		a.Warn(f.Spec.Warnings)
		if out == "" {
			_, err = a.Out.Write(body)
			return err
		}
		if err := command.WriteFile(out, func(w io.Writer) error { _, err := w.Write(body); return err }); err != nil {
			return err
		}
		a.Tell("wrote %s to %s", text.Count(len(f.Spec.Tasks), "task"), out)
		return nil
	}
	return c
}

// Schema is the command schema.
func Schema(in *command.App) *cobra.Command {
	a := app{in}
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of Tradewind YAML, for editors",
		Long: "Prints the JSON Schema (draft 2020-12) of Tradewind's own job files. Editors that know it complete\n" +
			"field names and underline mistakes: begin a file with\n\n" +
			"  # yaml-language-server: $schema=tradewind.schema.json",
		Example: "  tradewind schema > tradewind.schema.json",
		Args:    command.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			_, err := a.Out.Write(native.Schema())
			return err
		},
	}
}
