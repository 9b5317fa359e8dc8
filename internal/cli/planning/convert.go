package planning

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/jobfile"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/localfiles"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/kubernetes"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/dag/slurm"
)

// Convert is the convert command.
func Convert(in *command.App) *cobra.Command {
	a := app{in}
	var out string
	var variables jobfile.Variables
	c := &cobra.Command{
		Use:   "convert FILE...",
		Short: "Convert a DAG of any format to Tradewind YAML",
		Long: "Reads the DAG in FILE (SkyPilot YAML, Kubernetes manifests, Slurm scripts, WfCommons JSON, Pegasus\n" +
			"DAX, or Tradewind's own) and writes it as Tradewind YAML. - is standard input. It warns about parts of\n" +
			"the file that Tradewind does not support. If the file contains only Volcano Queues, it writes the\n" +
			"commands that create these queues in Tradewind.\n" +
			"\n" +
			"Several files must be Slurm scripts, and become one job. In them, --dependency=afterok:NAME names the\n" +
			"script to wait for: by its -J, or by its file name up to the first dot.\n" +
			"\n" +
			"Paths in a job file are relative to the file's folder. --out rewrites them for the folder of the new\n" +
			"file.",
		Example: "  tradewind convert task.sky.yaml > task.yaml\n" +
			"  tradewind convert task.sky.yaml --env MODEL=llama > task.yaml\n" +
			"  tradewind convert job.k8s.yaml > job.yaml\n" +
			"  tradewind convert queues.yaml | sh\n" +
			"  tradewind convert prepare.sbatch train.sbatch > job.yaml\n" +
			"  tradewind convert Montage_25.xml.gz --out montage.yaml",
		Args:              command.Args(1, maxScripts),
		ValidArgsFunction: command.CompleteFile,
	}
	c.Flags().StringVar(&out, "out", "", "write to this file instead of standard output")
	variables.Flags(c)
	c.RunE = func(_ *cobra.Command, given []string) error {
		env, err := variables.Read(a.App)
		if err != nil {
			return err
		}
		var scripts []slurm.Script
		for _, name := range given {
			path, content, err := a.ReadInput(name)
			if err != nil {
				return err
			}
			scripts = append(scripts, slurm.Script{Name: path, Data: content})
		}
		body, what, err := a.convert(scripts, env, out)
		if err != nil {
			return err
		}
		if out == "" {
			_, err = a.Out.Write(body)
			return err
		}
		if info, err := os.Stat(out); err == nil && info.Mode().IsRegular() {
			what += ", overwriting the old file,"
		}
		if err := command.WriteFile(out, func(w io.Writer) error { _, err := w.Write(body); return err }); err != nil {
			return err
		}
		a.Tell("wrote %s to %s", what, out)
		return nil
	}
	return c
}

// maxScripts is the maximum number of scripts in one job.
const maxScripts = 1000

// convert returns a job or queues in Tradewind's format, and a description. env overrides the variables of the files;
// out is the output file, or "".
func (a *app) convert(files []slurm.Script, env map[string]string, out string) (body []byte, what string, err error) {
	if len(files) > 1 {
		spec, err := slurm.Chain(files)
		if err == nil {
			err = spec.AddEnv(env)
		}
		if err != nil {
			return nil, "", err
		}
		return a.writeNative(spec, files[0].Name, out)
	}
	path, content := files[0].Name, files[0].Data
	queues, warnings, ok, err := kubernetes.Queues(path, content)
	if err != nil {
		return nil, "", err
	}
	if ok {
		a.Warn(warnings)
		return queueCommands(queues), text.Count(len(queues), "queue"), nil
	}
	spec, err := read.JobWithEnv(path, bytes.NewReader(content), env)
	if err != nil {
		return nil, "", err
	}
	return a.writeNative(spec, path, out)
}

// writeNative returns a job that was read from one file, in Tradewind's format for another file.
func (a *app) writeNative(spec *dag.Job, from, out string) (body []byte, what string, err error) {
	if out != "" {
		if err := rebasePaths(spec, jobfile.Base(spec, filepath.Dir(from)), filepath.Dir(out)); err != nil {
			return nil, "", err
		}
	}
	if body, err = dag.Marshal(spec); err != nil {
		return nil, "", err
	}
	a.Warn(spec.Warnings)
	return body, text.Count(len(spec.Tasks), "task"), nil
}

// rebasePaths rewrites the relative paths of a job from one base folder to another.
func rebasePaths(spec *dag.Job, from, to string) error {
	back, err := filepath.Rel(command.Absolute(to), command.Absolute(from))
	if err != nil {
		return command.BadInput(
			"write it next to the file that was read",
			"%s: paths cannot be relative to it: %v",
			to,
			err,
		)
	}
	localfiles.Paths(spec, func(p *string) {
		if *p != "" && !filepath.IsAbs(*p) && !strings.HasPrefix(*p, "~") && !strings.Contains(*p, "://") {
			*p = filepath.ToSlash(filepath.Join(back, *p))
		}
	})
	return nil
}

// queueCommands returns the commands that create queues, one per line.
func queueCommands(queues []kubernetes.Queue) []byte {
	var b bytes.Buffer
	for _, q := range queues {
		fmt.Fprintf(&b, "tradewind queue set %s", q.Name)
		if q.Parent != "" {
			fmt.Fprintf(&b, " --parent %s", q.Parent)
		}
		if q.Weight > 1 {
			fmt.Fprintf(&b, " --weight %d", q.Weight)
		}
		for _, of := range []struct {
			flag      string
			vcpu, gib float64
		}{
			{"--max", q.MaxVCPU, q.MaxGiB}, {"--deserved", q.DeservedVCPU, q.DeservedGiB},
			{"--guaranteed", q.GuaranteedVCPU, q.GuaranteedGiB},
		} {
			switch {
			case of.gib > 0 && of.vcpu > 0:
				fmt.Fprintf(&b, " %s vcpus=%s,memory=%s", of.flag, text.Number(of.vcpu), text.Number(of.gib))
			case of.gib > 0:
				fmt.Fprintf(&b, " %s memory=%s", of.flag, text.Number(of.gib))
			case of.vcpu > 0 && of.flag == "--max":
				fmt.Fprintf(&b, " --max-vcpu %s", text.Number(of.vcpu))
			case of.vcpu > 0:
				fmt.Fprintf(&b, " %s %s", of.flag, text.Number(of.vcpu))
			}
		}
		b.WriteString("\n")
	}
	return b.Bytes()
}

// Schema is the schema command.
func Schema(in *command.App) *cobra.Command {
	a := app{in}
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of Tradewind YAML, for editors",
		Long: "Prints the JSON Schema (draft 2020-12) of Tradewind's own job files. With it, editors complete field\n" +
			"names and underline mistakes. Begin a job file with\n" +
			"\n" +
			"  # yaml-language-server: $schema=tradewind.schema.json",
		Example: "  tradewind schema > tradewind.schema.json",
		Args:    command.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			_, err := a.Out.Write(native.Schema())
			return err
		},
	}
}
