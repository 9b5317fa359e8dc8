// Package kubekit opens Kubernetes clusters, by the contexts of a kubeconfig, or in a pod the cluster of the pod.
package kubekit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	driverkube "github.com/tradewind-broker/tradewind/internal/cloud/kubernetes"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/identity"
)

// DefaultNamespace is the namespace of pods if the settings name none.
const DefaultNamespace = "tradewind"

// Here is the name of the cluster in which the broker itself runs.
const Here = "in-cluster"

// freshFor is the time for which an observation of nodes is considered current. It is short because nodes are added
// and removed at any time.
const freshFor = 2 * time.Minute

// Kit returns the kit of Kubernetes.
func Kit() cloudkit.Kit {
	return cloudkit.Kit{
		NeedsAddress: true, Name: driverkube.Name, Title: "Kubernetes",
		Example: "--context my-cluster",
		Ready:   ready, Account: account, Open: open,
		Flags: flags}
}

func flags(f *pflag.FlagSet, s *cloudkit.Settings) {
	f.StringSliceVar(&s.Contexts, "context", nil,
		"contexts of the kubeconfig, one for each cluster (default: its current one)")
	f.StringVar(&s.Kubeconfig, "kubeconfig", "", "kubeconfig (default: what kubectl would read)")
	f.StringVar(&s.Namespace, "namespace", "", "namespace of the pods (default: "+DefaultNamespace+")")
	f.StringSliceVar(&s.Pools, "pool", nil,
		"node pools that can grow, [CONTEXT/]TYPE:CPUS:GIB[:GPUS[:MOST]], with the size of one node\n"+
			"and the maximum number of nodes; Karpenter's are read from the cluster")
	f.Func("price", "price of a node in USD per hour, TYPE=USD, instead of the catalogue's", price(s))
	f.StringVar(&s.AgentImage, "agent-image", "",
		"image with bash, curl and sha256sum, for downloading agents and for tasks without\nan image")
	f.StringSliceVar(&s.Gangs, "gang", nil,
		"scheduler that binds the pods of a task together, [CONTEXT/]gates|kueue:QUEUE|volcano[:QUEUE]|native\n"+
			"(default: gates, by this broker)")
	f.StringSliceVar(&s.PullSecrets, "image-pull-secret", nil,
		"Secrets of the namespace with the credentials for pulling images")
	f.BoolVar(&s.Unproven, "unproven-pods", false,
		"pods need not prove their identity, for clusters whose keys the broker cannot read")
	f.BoolVar(&s.Root, "root", false, "let tasks run as root, which the restricted Pod Security Standard forbids")
}

// price reads TYPE=USD into settings.
func price(s *cloudkit.Settings) func(string) error {
	return func(text string) error {
		kind, amount, _ := strings.Cut(text, "=")
		usd, err := strconv.ParseFloat(amount, 64)
		if kind == "" || err != nil || !(usd > 0 && usd <= 1e6) {
			return fmt.Errorf("%q is not TYPE=USD, such as m5.xlarge=0.19", text)
		}
		if s.Prices == nil {
			s.Prices = map[string]float64{}
		}
		s.Prices[kind] = usd
		return nil
	}
}

// contexts returns the names of the contexts to buy on and the kubeconfig that has them; a nil config means the
// cluster of this pod.
func contexts(s cloudkit.Settings, lookup cloudkit.Lookup) (*api.Config, []string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if file := cmp.Or(s.Kubeconfig, lookup(clientcmd.RecommendedConfigPathEnvVar)); file != "" {
		rules = &clientcmd.ClientConfigLoadingRules{Precedence: strings.Split(file, string(os.PathListSeparator))}
		if s.Kubeconfig != "" {
			if _, err := os.Stat(s.Kubeconfig); err != nil {
				return nil, nil, err
			}
		}
	}
	if len(s.Contexts) == 1 && s.Contexts[0] == Here {
		return nil, []string{Here}, nil
	}
	config, err := rules.Load()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("kubeconfig: %w", err)
	}
	names := s.Contexts
	if len(names) == 0 && config != nil && config.CurrentContext != "" {
		names = []string{config.CurrentContext}
	}
	if len(names) == 0 {
		if lookup("KUBERNETES_SERVICE_HOST") != "" {
			return nil, []string{Here}, nil
		}
		return nil, nil, errors.New("no context is given, and no kubeconfig has a current one: " +
			"tradewind cloud add kubernetes --context NAME")
	}
	for _, name := range names {
		if config.Contexts[name] == nil {
			known := make([]string, 0, len(config.Contexts))
			for n := range config.Contexts {
				known = append(known, n)
			}
			slices.Sort(known)
			return nil, nil, fmt.Errorf("the kubeconfig has no context %q: it has %s", name,
				cmp.Or(strings.Join(known, ", "), "none"))
		}
	}
	return config, names, nil
}

func ready(s cloudkit.Settings, lookup cloudkit.Lookup) error {
	_, names, err := contexts(s, lookup)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := pools(s.Pools, name); err != nil {
			return err
		}
		if _, err := gang(s.Gangs, name); err != nil {
			return err
		}
	}
	return nil
}

func account(s cloudkit.Settings, lookup cloudkit.Lookup) string {
	_, names, err := contexts(s, lookup)
	if err != nil {
		return ""
	}
	return "contexts " + strings.Join(names, ", ")
}

// Limits of the calls to an API server, per second and in a burst. An overloaded API server throttles clients itself
// (API Priority and Fairness), and the client waits; these limits only contain a bug in the broker.
const (
	callsASecond = 500
	callsAtOnce  = 1000
)

func open(_ context.Context, r cloudkit.Request) (*cloudkit.Opened, error) {
	s := r.Settings
	config, names, err := contexts(s, r.Lookup)
	if err != nil {
		return nil, err
	}
	namespace := cmp.Or(s.Namespace, r.Lookup("TRADEWIND_NAMESPACE"), DefaultNamespace)
	var places []driverkube.Place
	var regions []string
	for _, name := range names {
		p, err := place(config, name, namespace)
		if err != nil {
			return nil, fmt.Errorf("context %s: %w", name, err)
		}
		if p.Pools, err = pools(s.Pools, name); err != nil {
			return nil, err
		}
		if p.Gang, err = gang(s.Gangs, name); err != nil {
			return nil, err
		}
		places, regions = append(places, p), append(regions, p.Name)
	}
	settings := driverkube.Config{
		Deployment: r.Deployment, Places: places, Agents: r.Agents, Image: s.AgentImage, AsRoot: s.Root,
		PullSecrets: s.PullSecrets, Environment: s.Environment(), Graves: r.Graves, Log: r.Log,
	}
	var proofs identity.Verifier
	if !s.Unproven && r.PublicURL != "" {
		settings.Audience = r.PublicURL
		if proofs, err = verifier(places, settings.Audience); err != nil {
			return nil, err
		}
	}
	c := driverkube.New(settings)
	return &cloudkit.Opened{
		Cloud: c, Checker: c, Watch: c.Watch, Regions: regions, FreshFor: freshFor, Verifier: proofs,
		Refresh: func(ctx context.Context, snapshots driver.Snapshots) (driver.Refreshed, error) {
			one := driverkube.Refresher{Source: c, Snapshots: snapshots, USD: s.Prices}
			return one.Refresh(ctx)
		},
	}, nil
}

// verifier checks the identity proofs of pods.
func verifier(places []driverkube.Place, audience string) (identity.Verifier, error) {
	cfg := identity.KubernetesConfig{Audience: audience}
	for i := range places {
		p := &places[i]
		cfg.Places = append(cfg.Places, identity.KubernetesPlace{Name: p.Name, Namespace: p.Namespace, Keys: p.Keys})
	}
	return identity.NewKubernetes(cfg)
}

// place opens the cluster of a context.
func place(config *api.Config, name, namespace string) (p driverkube.Place, err error) {
	var to *rest.Config
	if config == nil {
		to, err = rest.InClusterConfig()
	} else {
		to, err = clientcmd.NewNonInteractiveClientConfig(*config, name, &clientcmd.ConfigOverrides{},
			nil).ClientConfig()
	}
	if err != nil {
		return p, err
	}
	to.QPS, to.Burst, to.UserAgent = callsASecond, callsAtOnce, "tradewind"
	p = driverkube.Place{Name: driverkube.PlaceName(name), Namespace: namespace}
	if p.Dynamic, err = dynamic.NewForConfig(to); err != nil {
		return p, err
	}
	to = rest.CopyConfig(to) // protobuf: a list of 10,000 pods is smaller and faster than in JSON
	to.ContentType, to.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+
		runtime.ContentTypeJSON
	p.Client, err = driverkube.NewClient(to)
	return p, err
}

// gang returns how a context binds gangs, from the elements BY and CONTEXT/BY; the last one that applies counts.
func gang(texts []string, of string) (found driverkube.Gang, err error) {
	for _, text := range texts {
		context, by, some := cutLast(text, "/")
		g, err := driverkube.ParseGang(by)
		if err != nil {
			return found, fmt.Errorf("--gang: %w", err)
		}
		if !some || context == of {
			found = g
		}
	}
	return found, nil
}

// pools returns the pools of a context, from elements [CONTEXT/]TYPE:CPUS:GIB[:GPUS[:MOST]].
func pools(texts []string, of string) (all []driverkube.Pool, err error) {
	for _, text := range texts {
		context, pool, some := cutLast(text, "/")
		if !some {
			context, pool = of, text
		}
		parts := strings.Split(pool, ":")
		bad := fmt.Errorf("pool %q is not [CONTEXT/]TYPE:CPUS:GIB[:GPUS[:MOST]], such as m5.xlarge:4:16", text)
		if len(parts) < 3 || len(parts) > 5 || parts[0] == "" {
			return nil, bad
		}
		n := [4]float64{}
		for i, part := range parts[1:] {
			n[i], err = strconv.ParseFloat(part, 64)
			if err != nil || !(n[i] >= 0 && n[i] <= 1<<20) || i < 2 && n[i] == 0 {
				return nil, bad
			}
		}
		if context != of {
			continue
		}
		all = append(all, driverkube.Pool{Most: int(n[3]), Node: driverkube.Node{Type: parts[0], Whole: driverkube.Room{
			MilliCPU: int64(n[0] * 1000), Bytes: int64(n[1] * (1 << 30)), GPUs: int64(n[2]),
		}}})
	}
	return all, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+len(sep):], true
}
