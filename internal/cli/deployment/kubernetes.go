package deployment

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/internal/kubeapi"
	"github.com/tradewind-broker/tradewind/internal/kubedeploy"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// kubernetesOptions are the flags of deploy kubernetes.
type kubernetesOptions struct {
	values             kubedeploy.Values
	context, namespace string
	dryRun, remove     bool
	keepData, yes      bool
	makeNamespace      bool
	limit              command.Limit
	output             *command.Choice
}

// KubernetesDeployment is the output of `deploy kubernetes -o json`.
type KubernetesDeployment struct {
	Context   string              `json:"context"`
	Namespace string              `json:"namespace"`
	Endpoint  string              `json:"endpoint,omitempty"` // for --endpoint
	Objects   []kubedeploy.Change `json:"objects"`
	Removed   bool                `json:"removed,omitempty"`
}

func (a app) deployKubernetesCommand() *cobra.Command {
	o := &kubernetesOptions{}
	o.values, _ = kubedeploy.Defaults() // compiled in; a test checks that they can be read
	c := &cobra.Command{
		Use:   "kubernetes",
		Short: "Deploy to a Kubernetes cluster, or update the deployment",
		Long: "Runs the broker in a Kubernetes cluster, as a StatefulSet of one pod with a volume. Also creates a\n" +
			"service, a network policy, a disruption budget and the broker's permissions: pods, secrets and events\n" +
			"of its namespace, and reading nodes. The Helm chart in deploy/helm creates the same objects. To\n" +
			"upgrade, run the command again with another image. See docs/kubernetes-deploy.md.",
		Example: "  tradewind deploy kubernetes --image registry.example.org/tradewind:v1\n" +
			"  tradewind deploy kubernetes --image registry.example.org/tradewind:v1 --dry-run > tradewind.yaml\n" +
			"  tradewind status --endpoint kubernetes://my-context/tradewind\n" +
			"  tradewind deploy kubernetes --remove               # volume, token and jobs stay",
		Args: command.Args(0, 0),
	}
	f := c.Flags()
	f.StringVar(&o.context, "context", "", "context of the kubeconfig (default: the current one)")
	f.StringVar(&o.namespace, "namespace", kubedeploy.Name, "namespace of the broker")
	f.BoolVar(&o.makeNamespace, "create-namespace", true,
		"create the namespace, with the restricted Pod Security Standard")
	f.StringVar(&o.values.Image, "image", "", "image with the tradewind program, built with scripts/image.sh")
	f.StringSliceVar(
		&o.values.ImagePullSecrets,
		"image-pull-secrets",
		nil,
		"secrets with the login of the image's registry",
	)
	f.StringSliceVar(&o.values.Clouds, "clouds", nil, "clouds to buy machines on, as in up --clouds")
	f.StringVar(&o.values.PublicURL, "public-url", "", "https URL at which bought machines reach the broker")
	f.StringSliceVar(
		&o.values.PodNamespaces,
		"pod-namespaces",
		nil,
		"additional namespaces in which the broker may create pods",
	)
	f.StringSliceVar(&o.values.Callers, "callers", nil, "additional namespaces whose pods may call the API")
	f.StringVar(&o.values.Storage.Size, "storage", o.values.Storage.Size, "size of the broker's volume")
	f.StringVar(&o.values.Resources.Memory, "memory", o.values.Resources.Memory,
		"memory of the broker's pod; raise it if a job is too large to plan")
	f.StringVar(&o.values.Storage.ClassName, "storage-class", "", "storage class of the broker's volume (default: the "+
		"cluster's)")
	f.StringVar(&o.values.Keep, "keep", "",
		"how long to keep finished jobs: 90d, or forever (default); keep in a job file or of a queue overrides it")
	o.limit.Flags(f)
	f.BoolVar(&o.dryRun, "dry-run", false, "print the objects as YAML, and change nothing")
	f.BoolVar(&o.remove, "remove", false,
		"remove the broker; its volume, token and jobs stay unless --keep-data=false")
	f.BoolVar(&o.keepData, "keep-data", true, "keep the volume, the token and the jobs when the broker is removed")
	f.BoolVar(&o.yes, "yes", false, "do not ask before removing")
	o.output = command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		if _, err := dag.ParseKeep(o.values.Keep); err != nil {
			return command.BadInput("", "--keep: %v", err)
		}
		o.values.LimitMachines, o.values.LimitUSD = o.limit.Machines, float64(o.limit.USDPerHour.Value)
		return a.deployKubernetes(ctx, o)
	}
	return c
}

func (a app) deployKubernetes(ctx context.Context, o *kubernetesOptions) error {
	switch {
	case o.dryRun && o.remove:
		return command.BadInput("leave out one of them", "--dry-run changes nothing, and --remove removes the broker")
	case o.values.Image == "" && !o.remove:
		return command.BadInput("scripts/image.sh builds one", "--image must name an image with the tradewind program")
	case o.remove:
		o.values.Image = "none" // removing does not use it
	}
	if err := a.checkKubernetes(o); err != nil {
		return err
	}
	o.values.CreateNamespace = o.makeNamespace
	objects, err := kubedeploy.Render(o.namespace, o.values)
	if err != nil {
		return err
	}
	if o.dryRun {
		return kubedeploy.Print(a.Out, objects)
	}
	api, err := kubeapi.Open(o.context)
	if err != nil {
		return command.Because(err, command.ExitBadInput, "--context names a context of the kubeconfig", "%v", err)
	}
	d := &KubernetesDeployment{Context: api.Context, Namespace: o.namespace}
	if o.remove {
		if err := a.confirmKubernetes(o, api); err != nil {
			return err
		}
		d.Removed = true
		d.Objects, err = kubedeploy.Remove(ctx, api, o.namespace, objects, !o.keepData)
	} else {
		d.Objects, err = kubedeploy.Apply(ctx, api, objects)
		d.Endpoint = "kubernetes://" + api.Context + "/" + o.namespace
	}
	if err != nil {
		return command.Because(err, command.ExitFailed,
			"docs/kubernetes-deploy.md lists the permissions it needs", "%v", err)
	}
	return a.printKubernetes(d, o.output)
}

// checkKubernetes refuses values that the cluster would refuse, or the broker at its start, where the user would not
// see the error.
func (a app) checkKubernetes(o *kubernetesOptions) error {
	v := &o.values
	for _, flag := range []struct {
		name   string
		spaces []string
	}{{"namespace", []string{o.namespace}}, {"pod-namespaces", v.PodNamespaces}, {"callers", v.Callers}} {
		for _, name := range flag.spaces {
			if bad := validation.IsDNS1123Label(name); len(bad) > 0 {
				return command.BadInput("", "--%s: invalid namespace %q: %s", flag.name, name, bad[0])
			}
		}
	}
	if size, err := resource.ParseQuantity(v.Storage.Size); err != nil || size.Sign() <= 0 {
		return command.BadInput("", "--storage: %q is not a size such as 10Gi", v.Storage.Size)
	}
	buys := false
	for _, name := range v.Clouds {
		if known := append(slices.Clone(a.clouds), cloudkit.Local); !slices.Contains(known, name) {
			return command.BadInput(fault.OneOf(name, known), "--clouds: unknown cloud %q", name)
		}
		buys = buys || name != cloudkit.Local
	}
	if !buys {
		if v.PublicURL != "" {
			return command.BadInput("--clouds names the clouds",
				"--public-url needs a cloud to buy machines on")
		}
		return nil
	}
	if _, err := host.PublicURL(v.PublicURL); err != nil {
		return command.BadInput("docs/kubernetes-deploy.md describes how machines can reach a broker in a cluster",
			"--public-url: %v", err)
	}
	return nil
}

// confirmKubernetes asks before it removes something.
func (a app) confirmKubernetes(o *kubernetesOptions, api *kubeapi.API) error {
	if o.yes {
		return nil
	}
	what := "the broker"
	if !o.keepData {
		what += ", its volume and its jobs"
	}
	what = fmt.Sprintf("%s in namespace %s of context %s", what, o.namespace, api.Context)
	if command.Terminal(a.In) == nil || command.Terminal(a.Err) == nil {
		return command.BadInput(
			"--yes confirms it",
			"%s would be removed, but there is no terminal to confirm it",
			what,
		)
	}
	_, _ = fmt.Fprintf(a.Err, "remove %s? Type the name of the namespace to confirm: ", what)
	answer, err := bufio.NewReader(a.In).ReadString('\n')
	if strings.TrimSpace(answer) != o.namespace {
		return errors.Join(err, command.BadInput("", "nothing was removed"))
	}
	return nil
}

func (a app) printKubernetes(d *KubernetesDeployment, output *command.Choice) error {
	if output.JSON() {
		return a.PrintJSON(d)
	}
	style := a.Style(a.Out)
	t := text.Table{Columns: []text.Column{{Name: "KIND"}, {Name: "NAME", Flexible: true}, {Name: "STATE"}}}
	for _, c := range d.Objects {
		name := c.Name
		if c.Namespace != "" && c.Namespace != d.Namespace {
			name = c.Namespace + "/" + name
		}
		t.Rows = append(t.Rows, []text.Cell{{Text: c.Kind}, {Text: name}, {Text: c.State, Tone: text.Faint}})
	}
	lines := t.Lines(0, style)
	if d.Endpoint != "" {
		lines = append(lines, "", "tradewind status --endpoint "+d.Endpoint)
	}
	return a.PrintLines(lines)
}
