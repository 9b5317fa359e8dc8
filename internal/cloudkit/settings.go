package cloudkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
	// NoPublicAddress is for networks with a way out of their own.
	NoPublicAddress bool `json:"noPublicAddress,omitempty"`
	// Endpoint is where the cloud's API is, and Proofs where the keys are by which its machines are proved: an
	// emulator, or a proxy; empty are the cloud's own.
	Endpoint string `json:"endpoint,omitempty"`
	Proofs   string `json:"proofs,omitempty"`
	// KeyFile is a file of mode 0600 with Lambda's API key, SSHKey an SSH key of its account.
	KeyFile string `json:"keyFile,omitempty"`
	SSHKey  string `json:"sshKey,omitempty"`
}

// StoreURLs are the URLs of the stores that the settings of a cloud name, by place, CLOUD:REGION.
func (s Settings) StoreURLs(cloud string) map[string]string {
	out := map[string]string{}
	for region, bucket := range s.Stores {
		out[cloud+":"+region] = driver.Scheme(cloud) + "://" + bucket
	}
	return out
}

// FileName is where the settings of a state folder's clouds lie in it.
const FileName = "clouds.json"

// ErrSettings says that the file of settings cannot be read.
var ErrSettings = errors.New("the settings of clouds cannot be read")

// Load reads the settings of a state folder's clouds, by name; none where there are none.
func Load(state string) (map[string]Settings, error) {
	file := filepath.Join(state, FileName)
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
		case "regions":
			in[name] = strings.Split(value, "+")
		case "stores":
			stores := map[string]string{}
			for part := range strings.SplitSeq(value, "+") {
				region, bucket, _ := strings.Cut(part, ":")
				stores[region] = bucket
			}
			in[name] = stores
		case "noPublicAddress":
			in[name] = value == "true"
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

// Save writes the settings of a state folder's clouds, readable by its owner alone.
func Save(state string, clouds map[string]Settings) error {
	body, err := json.MarshalIndent(map[string]any{"clouds": clouds}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(state, FileName), 0o600, append(body, '\n'))
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
