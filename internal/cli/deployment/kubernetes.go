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

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/fault"
	"github.com/tradewind-broker/tradewind/internal/kubeapi"
	"github.com/tradewind-broker/tradewind/internal/kubedeploy"
	"github.com/tradewind-broker/tradewind/pkg/host"
)

// kubernetesOptions are the flags of deploy kubernetes.
type kubernetesOptions struct {
	values             kubedeploy.Values
	context, namespace string
	dryRun, remove     bool
	keepData, yes      bool
	makeNamespace      bool
	output             *command.Choice
}

// KubernetesDeployment is what `deploy kubernetes -o json` prints.
type KubernetesDeployment struct {
	Context   string              `json:"context"`
	Namespace string              `json:"namespace"`
	Endpoint  string              `json:"endpoint,omitempty"` // for --endpoint
	Objects   []kubedeploy.Change `json:"objects"`
	Removed   bool                `json:"removed,omitempty"`
}

func (a app) deployKubernetesCommand() *cobra.Command {
	o := &kubernetesOptions{}
	o.values, _ = kubedeploy.Defaults() // of the program itself; a test reads them
	c := &cobra.Command{
		Use: "kubernetes", Short: "Deploy into a cluster of Kubernetes, or bring what is there up to date",
		Long: "Makes the broker a StatefulSet of one pod with a volume, a service, a network policy, a disruption budget and the rights\n" +
			"it needs: pods, secrets and events of its own namespace, and to read nodes. The objects are those of the Helm chart in\n" +
			"deploy/helm. The same command with another image upgrades. docs/kubernetes-deploy.md tells more.",
		Example: "  tradewind deploy kubernetes --image registry.example.org/tradewind:v1\n" +
			"  tradewind deploy kubernetes --image registry.example.org/tradewind:v1 --dry-run > tradewind.yaml\n" +
			"  tradewind status --endpoint kubernetes://my-context/tradewind\n" +
			"  tradewind deploy kubernetes --remove               # volume, token and jobs stay",
		Args: command.Args(0, 0),
	}
	f := c.Flags()
	f.StringVar(&o.context, "context", "", "context of the kubeconfig (default: its current one)")
	f.StringVar(&o.namespace, "namespace", kubedeploy.Name, "namespace of the broker")
	f.BoolVar(&o.makeNamespace, "create-namespace", true,
		"make the namespace, with the restricted Pod Security Standard")
	f.StringVar(&o.values.Image, "image", "", "image with the tradewind program, which deploy/Dockerfile builds")
	f.StringSliceVar(&o.values.ImagePullSecrets, "image-pull-secrets", nil, "secrets with the login of its registry")
	f.StringSliceVar(&o.values.Clouds, "clouds", nil, "clouds to buy machines on, as up --clouds has them")
	f.StringVar(&o.values.PublicURL, "public-url", "", "https URL at which bought machines reach the broker")
	f.StringSliceVar(&o.values.PodNamespaces, "pod-namespaces", nil, "further namespaces in which it may make pods")
	f.StringSliceVar(&o.values.Callers, "callers", nil, "namespaces whose pods may call the API, too")
	f.StringVar(&o.values.Storage.Size, "storage", o.values.Storage.Size, "size of its volume")
	f.StringVar(&o.values.Storage.ClassName, "storage-class", "", "class of its volume (default: the cluster's)")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the objects as YAML, and change nothing")
	f.BoolVar(&o.remove, "remove", false,
		"take the broker out; its volume, token and jobs stay unless --keep-data=false")
	f.BoolVar(&o.keepData, "keep-data", true, "keep the volume, the token and the jobs when it is removed")
	f.BoolVar(&o.yes, "yes", false, "do not ask before removing")
	o.output = command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		return a.deployKubernetes(ctx, o)
	}
	return c
}

func (a app) deployKubernetes(ctx context.Context, o *kubernetesOptions) error {
	switch {
	case o.dryRun && o.remove:
		return command.BadInput("leave out one of them", "--dry-run changes nothing, and --remove takes the broker out")
	case o.values.Image == "" && !o.remove:
		return command.BadInput("deploy/Dockerfile builds one", "--image says which image has the tradewind program")
	case o.remove:
		o.values.Image = "none" // of what is removed anyway
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
			"docs/kubernetes-deploy.md says which rights it takes", "%v", err)
	}
	return a.printKubernetes(d, o.output)
}

// checkKubernetes refuses what the cluster would, or the broker at its start, where nobody looks.
func (a app) checkKubernetes(o *kubernetesOptions) error {
	v := &o.values
	for _, flag := range []struct {
		name   string
		spaces []string
	}{{"namespace", []string{o.namespace}}, {"pod-namespaces", v.PodNamespaces}, {"callers", v.Callers}} {
		for _, name := range flag.spaces {
			if bad := validation.IsDNS1123Label(name); len(bad) > 0 {
				return command.BadInput("", "--%s: %q is no namespace: %s", flag.name, name, bad[0])
			}
		}
	}
	if size, err := resource.ParseQuantity(v.Storage.Size); err != nil || size.Sign() <= 0 {
		return command.BadInput("", "--storage: %q is no size such as 10Gi", v.Storage.Size)
	}
	buys := false
	for _, name := range v.Clouds {
		if known := append(slices.Clone(a.clouds), cloudkit.Local); !slices.Contains(known, name) {
			return command.BadInput(fault.OneOf(name, known), "--clouds: there is no cloud %q", name)
		}
		buys = buys || name != cloudkit.Local
	}
	if !buys {
		if v.PublicURL != "" {
			return command.BadInput("--clouds names the clouds",
				"--public-url is for clouds that machines are bought on")
		}
		return nil
	}
	if _, err := host.PublicURL(v.PublicURL); err != nil {
		return command.BadInput("docs/kubernetes-deploy.md says what leads to a broker in a cluster",
			"--public-url: %v", err)
	}
	return nil
}

// confirmKubernetes asks before something is removed.
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
		return command.BadInput("--yes says that it is meant", "%s would be removed, and there is nobody to ask", what)
	}
	_, _ = fmt.Fprintf(a.Err, "remove %s? The namespace's name removes it: ", what)
	answer, err := bufio.NewReader(a.In).ReadString('\n')
	if strings.TrimSpace(answer) != o.namespace {
		return errors.Join(err, command.BadInput("", "nothing is removed"))
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
