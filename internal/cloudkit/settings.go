package cloudkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tradewind-broker/tradewind/internal/atomicfile"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
)

// Settings are those of one cloud. There is no secret in them: a key is named by the file that it lies in.
type Settings struct {
	// Regions are all that are bought in; empty is what the cloud's kit makes of it.
	Regions []string `json:"regions,omitempty"`
	// Profile names the credentials of AWS among those of this computer; empty is the default ones.
	Profile string `json:"profile,omitempty"`
	// Certificates is a file with the certificates, PEM, that machines of AWS are proved by; empty is AWS's own.
	Certificates string `json:"certificates,omitempty"`
	// Project is Google's. ServiceAccount, an address, is what its machines prove themselves with; Network and
	// Subnetwork are where they are.
	Project        string `json:"project,omitempty"`
	ServiceAccount string `json:"serviceAccount,omitempty"`
	Network        string `json:"network,omitempty"`
	Subnetwork     string `json:"subnetwork,omitempty"`
	// Subscription and ResourceGroup are Azure's, and Tenant the directory that its Client, an application, is in.
	Subscription  string `json:"subscription,omitempty"`
	ResourceGroup string `json:"resourceGroup,omitempty"`
	Tenant        string `json:"tenant,omitempty"`
	// Member of Google, user:ADDRESS or serviceAccount:ADDRESS, and Principal of Azure, an object's ID, are who buys:
	// for them what buying needs was made, and is removed.
	Member    string `json:"member,omitempty"`
	Principal string `json:"principal,omitempty"`
	Client    string `json:"client,omitempty"`
	// Provider is Google's workload identity provider that trusts an AWS role, and Impersonate the service account, an
	// address, that who comes by it acts as.
	Provider    string `json:"provider,omitempty"`
	Impersonate string `json:"impersonate,omitempty"`
	// Stores are the buckets of regions, in which tasks that run near there leave what they leave; those of Azure are
	// containers of StorageAccount. Who signs for Google's is the service account Impersonate.
	Stores         map[string]string `json:"stores,omitempty"`
	StorageAccount string            `json:"storageAccount,omitempty"`
	// Storage is where the cloud's object store is, with what signs for it: an emulator; empty is the cloud's own.
	Storage string `json:"storage,omitempty"`
	// Secrets are those of the cloud that the function of a deployment on AWS hands to jobs (secret.Within):
	// PROJECT/NAME of Google's Secret Manager, VAULT/NAME of Azure's Key Vault. SecretStore is where they are: an
	// emulator; empty is the cloud's own.
	Secrets     []string `json:"secrets,omitempty"`
	SecretStore string   `json:"secretStore,omitempty"`
	// PushAccount is the service account, by its address, as which Google's Pub/Sub pushes notices to this broker.
	PushAccount string `json:"pushAccount,omitempty"`
	// DAGs is the place, gs://BUCKET/FOLDER, whose files become jobs. What Pub/Sub has to tell of it comes from the
	// subscription Pull, which a broker in one process empties, or is pushed to the broker at PushURL.
	DAGs    string `json:"dags,omitempty"`
	Pull    string `json:"pull,omitempty"`
	PushURL string `json:"pushURL,omitempty"`
	// TPUs says that Google's TPUs may be bought, whose API has to be on.
	TPUs bool `json:"tpus,omitempty"`
	// NoPublicAddress is for networks with a way out of their own.
	NoPublicAddress bool `json:"noPublicAddress,omitempty"`
	// Proxy is the HTTP proxy by which machines, and what runs on them, reach everything but their network.
	Proxy string `json:"proxy,omitempty"`
	// Tags are put on all that is bought (Google's labels), for policies that ask for some.
	Tags map[string]string `json:"tags,omitempty"`
	// Images are used instead of the cloud's own where a task names none, by class of machine: amd64, arm64, amd64-gpu.
	Images map[string]string `json:"images,omitempty"`
	// Reserved is capacity that the account has already and that the cloud is not asked about, TYPE@REGION:COUNT or
	// TYPE@REGION/ZONE:COUNT, with :USD after it where an hour costs something on the margin.
	Reserved []string `json:"reserved,omitempty"`
	// InstanceProfile of AWS, a name or an ARN, is given to machines for their tasks' own use.
	InstanceProfile string `json:"instanceProfile,omitempty"`
	// Endpoint is where the cloud's API is, and Proofs where the keys are by which its machines are proved: an
	// emulator, or a proxy; empty are the cloud's own.
	Endpoint string `json:"endpoint,omitempty"`
	Proofs   string `json:"proofs,omitempty"`
	// Kubeconfig is the file with the Contexts of Kubernetes; empty is what kubectl would read. Pods are made in
	// Namespace. Pools of nodes that can grow are TYPE:CPUS:GIB, with :GPUS and then :MOST nodes after them. Prices of
	// nodes, USD an hour by type, are for those that the catalogue does not know. AgentImage is the image that agents
	// are fetched in, Root lets tasks run as root.
	Kubeconfig string             `json:"kubeconfig,omitempty"`
	Contexts   []string           `json:"contexts,omitempty"`
	Namespace  string             `json:"namespace,omitempty"`
	Pools      []string           `json:"pools,omitempty"`
	Prices     map[string]float64 `json:"prices,omitempty"`
	AgentImage string             `json:"agentImage,omitempty"`
	// Gangs are who binds gangs, BY or CONTEXT/BY. PullSecrets are the names of Secrets of the namespace by which
	// images are got.
	Gangs       []string `json:"gangs,omitempty"`
	PullSecrets []string `json:"pullSecrets,omitempty"`
	Root        bool     `json:"root,omitempty"`
	// Unproven lets pods speak for a task that do not prove which one they are.
	Unproven bool `json:"unproven,omitempty"`
	// KeyFile is a file of mode 0600 with Lambda's API key, SSHKey an SSH key of its account.
	KeyFile string `json:"keyFile,omitempty"`
	SSHKey  string `json:"sshKey,omitempty"`
	// Functions are who buys instead of who is at this computer. They are no setting of theirs.
	Functions Functions `json:"functions,omitzero"`
}

// StoreURLs are the URLs of the stores that the settings of a cloud name, by place, CLOUD:REGION.
func (s Settings) StoreURLs(cloud string) map[string]string {
	out := map[string]string{}
	for region, bucket := range s.Stores {
		out[cloud+":"+region] = driver.Scheme(cloud) + "://" + bucket
	}
	return out
}

// Without are the machines that clouds sell and these settings do not buy, by cloud, as planner.Options.Without has
// them: Google's TPUs, which have an API of their own that has to be on.
func Without(settings map[string]Settings) (not []string) {
	if s, bought := settings["gcp"]; bought && !s.TPUs {
		not = append(not, "gcp/tpu-")
	}
	return not
}

// Text writes settings as `deploy aws --cloud` takes them: NAME=VALUE by comma, the parts of lists joined by "+".
// FromPairs reads it.
func (s Settings) Text() (string, error) {
	s.Functions = Functions{}
	body, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil {
		return "", err
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		var value string
		switch v := fields[name].(type) {
		case []any:
			var parts []string
			for _, x := range v {
				parts = append(parts, fmt.Sprint(x))
			}
			value = strings.Join(parts, "+")
		case map[string]any:
			joint := "="
			if name == "stores" {
				joint = ":"
			}
			var parts []string
			for _, key := range slices.Sorted(maps.Keys(v)) {
				parts = append(parts, key+joint+fmt.Sprint(v[key]))
			}
			value = strings.Join(parts, "+")
		default:
			value = fmt.Sprint(v)
		}
		all = append(all, name+"="+value)
	}
	return strings.Join(all, ","), nil
}

// FileName is where the settings of a state folder's clouds lie in it.
const FileName = "clouds.json"

// ErrSettings says that settings cannot be read, or are wrong.
var ErrSettings = errors.New("in the settings of clouds")

// Load reads the settings of a state folder's clouds, by name; none where there are none.
func Load(state string) (map[string]Settings, error) { return load(filepath.Join(state, FileName)) }

func load(file string) (map[string]Settings, error) {
	body, err := os.ReadFile(file) //nolint:gosec // in the state folder
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]Settings{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	return Read(file, body)
}

// Read reads settings. A field that is not known is refused: it may bound what is bought.
func Read(file string, body []byte) (map[string]Settings, error) {
	var in struct {
		Clouds map[string]Settings `json:"clouds"`
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		line := 1 + strings.Count(string(body[:min(int(d.InputOffset()), len(body))]), "\n")
		return nil, fmt.Errorf("%w: %s, line %d: %w", ErrSettings, file, line, err)
	}
	if in.Clouds == nil {
		in.Clouds = map[string]Settings{}
	}
	return in.Clouds, nil
}

// FromPairs makes settings of names and values, as a function's environment has them. The parts of a list are joined by
// "+". It fails with ErrSettings for what is no setting.
func FromPairs(pairs map[string]string) (s Settings, err error) {
	in := map[string]any{}
	for name, value := range pairs {
		switch name {
		case "regions", "contexts", "pools", "secrets", "reserved":
			in[name] = strings.Split(value, "+")
		case "stores":
			stores := map[string]string{}
			for part := range strings.SplitSeq(value, "+") {
				region, bucket, _ := strings.Cut(part, ":")
				stores[region] = bucket
			}
			in[name] = stores
		case "noPublicAddress", "tpus", "root":
			in[name] = value == "true"
		case "tags", "images":
			pairs := map[string]string{}
			for part := range strings.SplitSeq(value, "+") {
				key, v, ok := strings.Cut(part, "=")
				if !ok || key == "" {
					return s, fmt.Errorf("%w: %s: %q is no NAME=VALUE", ErrSettings, name, part)
				}
				pairs[key] = v
			}
			in[name] = pairs
		default:
			in[name] = value
		}
	}
	body, err := json.Marshal(map[string]any{"clouds": map[string]any{"": in}})
	if err != nil {
		return s, err
	}
	read, err := Read("settings", body)
	return read[""], err
}

// Environment is what machines' agents find in theirs, beside their own.
func (s Settings) Environment() map[string]string {
	if s.Proxy == "" {
		return nil
	}
	env := map[string]string{}
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY"} {
		env[name], env[strings.ToLower(name)] = s.Proxy, s.Proxy // programs differ in which they read
	}
	// What is asked of the machine itself, its metadata service and its neighbours does not leave the network.
	const direct = "localhost,127.0.0.1,169.254.169.254,metadata.google.internal," +
		"10.0.0.0/8,172.16.0.0/12,192.168.0.0/16"
	env["NO_PROXY"], env["no_proxy"] = direct, direct
	return env
}

// Check says what is wrong with settings whatever the cloud.
func (s Settings) Check() error {
	if err := s.Functions.Check(); err != nil {
		return err
	}
	if _, err := s.ReservedOf("aws"); err != nil { // whichever cloud it is
		return err
	}
	if err := s.checkDAGs(); err != nil {
		return err
	}
	if s.Proxy == "" {
		return nil
	}
	u, err := url.Parse(s.Proxy)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%w: proxy %q is not http://HOST:PORT", ErrSettings, s.Proxy)
	}
	if u.User != nil {
		return fmt.Errorf("%w: the proxy's password would lie on every machine: let the network say who may use it",
			ErrSettings)
	}
	return nil
}

// NetworkFlags adds to a command what machines need in a network as people have them.
func NetworkFlags(f *pflag.FlagSet, s *Settings) {
	f.StringVar(&s.Proxy, "proxy", "", "HTTP proxy of the machines and what runs on them: http://HOST:PORT")
	f.BoolVar(&s.NoPublicAddress, "no-public-address", false,
		"machines have no public address: their network needs another way out")
	f.StringToStringVar(&s.Tags, "tag", nil, "tag on all that is bought, NAME=VALUE, for policies that demand one")
	f.StringToStringVar(&s.Images, "image", nil,
		"image instead of the cloud's own, CLASS=IMAGE; a class is amd64, arm64 or\namd64-gpu")
}

// Save writes the settings of a state folder's clouds, readable by its owner alone.
func Save(state string, clouds map[string]Settings) error {
	return save(filepath.Join(state, FileName), clouds)
}

func save(file string, clouds map[string]Settings) error {
	body, err := json.MarshalIndent(map[string]any{"clouds": clouds}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(file, 0o600, append(body, '\n'))
}

// Local is the name by which this computer stands in for the clouds that are not bought on.
const Local = "local"

// Choose reads a list of clouds: names of kits, or Local. It says which may be named where one is not known.
func Choose(kits []Kit, names []string) (chosen []Kit, local bool, err error) {
	known := map[string]Kit{}
	for _, k := range kits {
		known[k.Name] = k
	}
	seen := map[string]bool{}
	for _, name := range names {
		name = strings.TrimSpace(name)
		k, ok := known[name]
		switch {
		case name == Local:
			local = true
		case !ok:
			return nil, false, fmt.Errorf("there is no cloud %q: it is %s or %s", name,
				strings.Join(slices.Sorted(maps.Keys(known)), ", "), Local)
		case !seen[name]:
			chosen = append(chosen, k)
		}
		seen[name] = true
	}
	return chosen, local, nil
}
