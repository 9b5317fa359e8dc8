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

	"github.com/tradewind-broker/tradewind/internal/base/files"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
)

// Settings are the settings of one cloud. They contain no secret: a key is given as the name of its file.
type Settings struct {
	// Regions are the only regions in which to buy; the meaning of an empty list depends on the cloud's kit.
	Regions []string `json:"regions,omitempty"`
	// Profile names AWS credentials of this computer; empty means the default ones.
	Profile string `json:"profile,omitempty"`
	// Certificates is a PEM file with the certificates that verify AWS machines; empty means those that AWS publishes.
	Certificates string `json:"certificates,omitempty"`
	// Project is the Google project. ServiceAccount, an address, is the account with which its machines prove their
	// identity; Network and Subnetwork are the network of the machines.
	Project        string `json:"project,omitempty"`
	ServiceAccount string `json:"serviceAccount,omitempty"`
	Network        string `json:"network,omitempty"`
	Subnetwork     string `json:"subnetwork,omitempty"`
	// Subscription and ResourceGroup belong to Azure. Tenant is the directory of the application Client.
	Subscription  string `json:"subscription,omitempty"`
	ResourceGroup string `json:"resourceGroup,omitempty"`
	Tenant        string `json:"tenant,omitempty"`
	// Member for Google, user:ADDRESS or serviceAccount:ADDRESS, and Principal for Azure, an object ID, are the
	// identity that buys. What buying needs is created for this identity, and removed.
	Member    string `json:"member,omitempty"`
	Principal string `json:"principal,omitempty"`
	Client    string `json:"client,omitempty"`
	// Provider is Google's workload identity provider that trusts an AWS role. Impersonate is the address of the
	// service account that the role acts as.
	Provider    string `json:"provider,omitempty"`
	Impersonate string `json:"impersonate,omitempty"`
	// Stores are buckets by region, for the outputs of tasks that run in or near it. Azure's are containers of
	// StorageAccount. Requests for Google's are signed as the service account Impersonate.
	Stores         map[string]string `json:"stores,omitempty"`
	StorageAccount string            `json:"storageAccount,omitempty"`
	// Storage is the URL of an emulator of the object store and of its signer; empty means the cloud's own.
	Storage string `json:"storage,omitempty"`
	// Secrets are the secrets of the cloud that the function of a deployment on AWS gives to jobs (secret.Within):
	// PROJECT/NAME in Google's Secret Manager, VAULT/NAME in Azure's Key Vault. SecretStore is the URL of an
	// emulator; empty means the cloud's own.
	Secrets     []string `json:"secrets,omitempty"`
	SecretStore string   `json:"secretStore,omitempty"`
	// PushAccount is the address of the service account as which Google's Pub/Sub pushes notices to this broker.
	PushAccount string `json:"pushAccount,omitempty"`
	// DAGs is the folder, gs://BUCKET/FOLDER, whose files become jobs. Pub/Sub's messages about new files come from
	// the subscription Pull, which a broker in one process reads, or are pushed to the broker at PushURL.
	DAGs string `json:"dags,omitempty"`
	Pull string `json:"pull,omitempty"`
	// Announce lets the hook function of a deployment on AWS publish on topics that jobs name. A broker in one process
	// publishes without it.
	Announce bool `json:"announce,omitempty"`
	// MailFrom is the address, verified in AWS's Simple Email Service, from which jobs notify people; empty means that
	// no e-mail is sent.
	MailFrom string `json:"mailFrom,omitempty"`
	// PubSub is the address, HOST:PORT, of an emulator of Pub/Sub; empty means Google's own.
	PubSub  string `json:"pubsub,omitempty"`
	PushURL string `json:"pushURL,omitempty"`
	// TPUs allows buying Google's TPUs; their API must be enabled.
	TPUs bool `json:"tpus,omitempty"`
	// NoPublicAddress gives machines no public address; the network needs another way to the internet, for example NAT.
	NoPublicAddress bool `json:"noPublicAddress,omitempty"`
	// Subnets are the IDs of existing subnets of Azure for the machines, by region. One is created in other regions.
	Subnets map[string]string `json:"subnets,omitempty"`
	// Proxy is the HTTP proxy through which machines and their tasks reach everything outside their network.
	Proxy string `json:"proxy,omitempty"`
	// Tags (labels on Google) are put on everything that is bought, for policies that require some.
	Tags map[string]string `json:"tags,omitempty"`
	// Images replace the cloud's default images, by class of machine (amd64, arm64, amd64-gpu), for tasks that name
	// none.
	Images map[string]string `json:"images,omitempty"`
	// Reserved is capacity that the account already has and that the cloud does not report: TYPE@REGION:COUNT or
	// TYPE@REGION/ZONE:COUNT, followed by :USD if an hour has a marginal price.
	Reserved []string `json:"reserved,omitempty"`
	// InstanceProfile of AWS, a name or an ARN, is attached to machines for the use of their tasks.
	InstanceProfile string `json:"instanceProfile,omitempty"`
	// Services are the managed services of the cloud that run Spark tasks: emr, emr-serverless, dataproc,
	// dataproc-serverless. EMRRole and EMRProfile are EMR's service role and the instance profile of its machines.
	// JobRole is the ARN of the role of EMR Serverless's job runs. SparkAccount is the service account of Dataproc's
	// machines and batches.
	Services     []string `json:"services,omitempty"`
	EMRRole      string   `json:"emrRole,omitempty"`
	EMRProfile   string   `json:"emrProfile,omitempty"`
	JobRole      string   `json:"jobRole,omitempty"`
	SparkAccount string   `json:"sparkAccount,omitempty"`
	// Endpoint is the URL of the cloud's API, and Proofs the source of the keys that verify its machines, of an
	// emulator or a proxy; empty means the cloud's own.
	Endpoint string `json:"endpoint,omitempty"`
	Proofs   string `json:"proofs,omitempty"`
	// Kubeconfig is the file with the Contexts of Kubernetes; empty means the file that kubectl would read. Pods are
	// created in Namespace. Pools are node pools that can grow, TYPE:CPUS:GIB, optionally with :GPUS and then :MOST,
	// the maximum number of nodes. Prices are prices of nodes in USD per hour, by type, for types that the catalogue
	// does not have. AgentImage is the image of the container that downloads the agent. Root allows tasks to run as
	// root.
	Kubeconfig string             `json:"kubeconfig,omitempty"`
	Contexts   []string           `json:"contexts,omitempty"`
	Namespace  string             `json:"namespace,omitempty"`
	Pools      []string           `json:"pools,omitempty"`
	Prices     map[string]float64 `json:"prices,omitempty"`
	AgentImage string             `json:"agentImage,omitempty"`
	// Gangs name the scheduler that binds gangs, BY or CONTEXT/BY. PullSecrets are names of Secrets in the namespace
	// for pulling images.
	Gangs       []string `json:"gangs,omitempty"`
	PullSecrets []string `json:"pullSecrets,omitempty"`
	Root        bool     `json:"root,omitempty"`
	// Unproven lets pods act for a task although they do not prove which pod they are.
	Unproven bool `json:"unproven,omitempty"`
	// KeyFile is a file of mode 0600 with Lambda's API key. SSHKey is the name of an SSH key of the account.
	KeyFile string `json:"keyFile,omitempty"`
	SSHKey  string `json:"sshKey,omitempty"`
	// Functions are the functions that buy instead of this computer. They do not inherit this field.
	Functions Functions `json:"functions,omitzero"`
}

// StoreURLs returns the URLs of the stores in the settings of a cloud, by place, CLOUD:REGION.
func (s Settings) StoreURLs(cloud string) map[string]string {
	out := map[string]string{}
	for region, bucket := range s.Stores {
		out[cloud+":"+region] = driver.Scheme(cloud) + "://" + bucket
	}
	return out
}

// NotBought returns the machines that clouds sell but these settings do not buy, by cloud, in the format of
// planner.Options.Without: Google's TPUs, which have a separate API that must be enabled.
func NotBought(settings map[string]Settings) (not []string) {
	if s, bought := settings["gcp"]; bought && !s.TPUs {
		not = append(not, "gcp/tpu-")
	}
	return not
}

// Text formats settings as `deploy aws --cloud` takes them: NAME=VALUE separated by commas, list elements joined by
// "+". FromPairs reads it.
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
			if name == "stores" || name == "subnets" {
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

// FileName is the file in a state folder with the settings of its clouds.
const FileName = "clouds.json"

// ErrSettings means that settings cannot be read or are wrong.
var ErrSettings = errors.New("in the settings of clouds")

// Load reads the settings of a state folder's clouds, by name. The map is empty if the folder has none.
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

// Read parses settings. It rejects unknown fields, because a field may limit purchases.
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

// FromPairs returns settings from names and values, for example from a function's environment. List elements are
// joined by "+". Errors match ErrSettings, also for unknown names.
func FromPairs(pairs map[string]string) (s Settings, err error) {
	in := map[string]any{}
	for name, value := range pairs {
		switch name {
		case "regions", "contexts", "pools", "secrets", "reserved", "services":
			in[name] = strings.Split(value, "+")
		case "stores", "subnets":
			byRegion := map[string]string{}
			for part := range strings.SplitSeq(value, "+") {
				region, of, _ := strings.Cut(part, ":")
				byRegion[region] = of
			}
			in[name] = byRegion
		case "noPublicAddress", "tpus", "root", "announce":
			in[name] = value == "true"
		case "tags", "images":
			pairs := map[string]string{}
			for part := range strings.SplitSeq(value, "+") {
				key, v, ok := strings.Cut(part, "=")
				if !ok || key == "" {
					return s, fmt.Errorf("%w: %s: %q is not NAME=VALUE", ErrSettings, name, part)
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

// Environment returns environment variables for the agents of machines, in addition to the agents' own.
func (s Settings) Environment() map[string]string {
	if s.Proxy == "" {
		return nil
	}
	env := map[string]string{}
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY"} {
		env[name], env[strings.ToLower(name)] = s.Proxy, s.Proxy // programs differ in which one they read
	}
	// Requests to the machine itself, its metadata service and its neighbours do not leave the network.
	const direct = "localhost,127.0.0.1,169.254.169.254,metadata.google.internal," +
		"10.0.0.0/8,172.16.0.0/12,192.168.0.0/16"
	env["NO_PROXY"], env["no_proxy"] = direct, direct
	return env
}

// Check returns an error if settings are invalid, whatever the cloud.
func (s Settings) Check() error {
	if err := s.Functions.Check(); err != nil {
		return err
	}
	if _, err := s.ReservedOf("aws"); err != nil { // the check is the same for every cloud
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
		return fmt.Errorf("%w: the proxy's password would be on every machine: let the network decide who may use it",
			ErrSettings)
	}
	return nil
}

// NetworkFlags adds to a command the flags for machines in customers' networks: proxy, addresses, tags and images.
func NetworkFlags(f *pflag.FlagSet, s *Settings) {
	f.StringVar(&s.Proxy, "proxy", "", "HTTP proxy for the machines and their tasks: http://HOST:PORT")
	f.BoolVar(&s.NoPublicAddress, "no-public-address", false,
		"machines have no public address: their network needs another way to the internet")
	f.StringToStringVar(&s.Tags, "tag", nil, "tag on all that is bought, NAME=VALUE, for policies that require one")
	f.StringToStringVar(&s.Images, "image", nil,
		"image instead of the cloud's default, CLASS=IMAGE; a class is amd64, arm64 or\namd64-gpu")
}

// Save writes the settings of a state folder's clouds. Only the owner can read the file.
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
	return files.Write(file, 0o600, append(body, '\n'))
}

// Local is the name of the cloud that simulates, on this computer, the clouds on which the broker does not buy.
const Local = "local"

// Choose reads a list of clouds: names of kits, or Local. The error for an unknown name lists the valid ones.
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
			return nil, false, fmt.Errorf("unknown cloud %q: use %s or %s", name,
				strings.Join(slices.Sorted(maps.Keys(known)), ", "), Local)
		case !seen[name]:
			chosen = append(chosen, k)
		}
		seen[name] = true
	}
	return chosen, local, nil
}
