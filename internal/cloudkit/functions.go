package cloudkit

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/spf13/pflag"
)

// Functions are the functions of a deployment on AWS. They buy on another cloud without a key: that cloud trusts
// AWS's statement of their role.
type Functions struct {
	// Account of AWS, twelve digits; empty if the settings are not for functions.
	Account    string `json:"account"`
	Deployment string `json:"deployment"`
	// Region of the deployment; empty is DefaultFunctionsRegion.
	Region string `json:"region,omitempty"`
	// Issuer is the URL that signs tokens for the account's roles. Azure needs it. Google verifies proofs by calling
	// AWS itself.
	Issuer string `json:"issuer,omitempty"`
}

// EmulatorFlags adds the hidden flags for an emulator on this computer instead of the cloud, for tests and rehearsals.
func EmulatorFlags(f *pflag.FlagSet, s *Settings) {
	f.StringVar(&s.Endpoint, "endpoint-url", "", "URL of an emulator to use instead of the cloud")
	f.StringVar(&s.Proofs, "proofs", "", "source of the keys that verify the emulator's machines")
	for _, name := range []string{"endpoint-url", "proofs"} {
		f.Lookup(name).Hidden = true
	}
}

// FunctionFlags adds to a command the flags that name the deployment on AWS for which a cloud is set up.
func FunctionFlags(f *pflag.FlagSet, s *Settings) {
	f.StringVar(&s.Functions.Account, "aws-account", "",
		"AWS account of the deployment that buys: the cloud is made to trust its function,\n"+
			"and the settings are printed, not saved")
	f.StringVar(&s.Functions.Deployment, "aws-deployment", "tradewind", "name of that deployment")
	f.StringVar(&s.Functions.Region, "aws-region", DefaultFunctionsRegion, "region of that deployment")
}

var awsAccount = regexp.MustCompile(`^[0-9]{12}$`)

// Check returns an error if f is invalid.
func (f Functions) Check() error {
	if f.Account != "" && !awsAccount.MatchString(f.Account) {
		return fmt.Errorf("%w: an AWS account has twelve digits: %q", ErrSettings, f.Account)
	}
	return nil
}

// DefaultFunctionsRegion is the region of a deployment on AWS if no other is named.
const DefaultFunctionsRegion = "us-east-1"

// Role returns the name of the AWS role of the deployment's function that buys on a cloud. It contains the region,
// because the names of roles are unique in an account.
func (f Functions) Role(cloud string) string {
	return f.Deployment + "-cloud-" + cloud + "-" + cmp.Or(f.Region, DefaultFunctionsRegion)
}

// FunctionsFileName is the file in a state folder that records the resources created in clouds for functions on AWS.
const FunctionsFileName = "functions.json"

func (f Functions) key(cloud string) string {
	key := cloud + "/" + f.Account + "/" + f.Deployment
	if f.Region != "" && f.Region != DefaultFunctionsRegion {
		key += "/" + f.Region
	}
	return key
}

// LoadMadeFor reads, from this state folder, the record of the resources created in a cloud for a deployment's
// functions.
func LoadMadeFor(state, cloud string, f Functions) (s Settings, known bool, err error) {
	all, err := load(filepath.Join(state, FunctionsFileName))
	s, known = all[f.key(cloud)]
	return s, known, err
}

// SaveMadeFor records created resources; a nil s means that they were removed.
func SaveMadeFor(state, cloud string, f Functions, s *Settings) error {
	file := filepath.Join(state, FunctionsFileName)
	all, err := load(file)
	if err != nil {
		return err
	}
	if delete(all, f.key(cloud)); s != nil {
		all[f.key(cloud)] = *s
	}
	return save(file, all)
}
