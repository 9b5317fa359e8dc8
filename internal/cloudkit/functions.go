package cloudkit

import (
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/spf13/pflag"
)

// Functions are those of a deployment on AWS, which buy on another cloud without a key: that cloud trusts what AWS says
// of their role.
type Functions struct {
	// Account of AWS, twelve digits; empty: it is not for functions.
	Account    string `json:"account"`
	Deployment string `json:"deployment"`
	// Issuer signs for the account who its roles are. Azure asks for it, Google asks AWS itself.
	Issuer string `json:"issuer,omitempty"`
}

// FunctionFlags adds to a command for whom a cloud is prepared.
func FunctionFlags(f *pflag.FlagSet, s *Settings) {
	f.StringVar(&s.Functions.Account, "aws-account", "",
		"account of AWS whose deployment buys: the cloud is made to trust its function,\n"+
			"and the settings are printed, not kept")
	f.StringVar(&s.Functions.Deployment, "aws-deployment", "tradewind", "name of that deployment")
}

var awsAccount = regexp.MustCompile(`^[0-9]{12}$`)

// Check says what is wrong with them.
func (f Functions) Check() error {
	if f.Account != "" && !awsAccount.MatchString(f.Account) {
		return fmt.Errorf("%w: an account of AWS is twelve digits, not %q", ErrSettings, f.Account)
	}
	return nil
}

// Role is that of the function of a deployment that buys on a cloud.
func (f Functions) Role(cloud string) string { return f.Deployment + "-cloud-" + cloud }

// FunctionsFileName is where it is noted, in a state folder, what was made in clouds for functions on AWS.
const FunctionsFileName = "functions.json"

func (f Functions) key(cloud string) string { return cloud + "/" + f.Account + "/" + f.Deployment }

// MadeFor reads what was made in a cloud for the functions of a deployment, as far as this state folder knows.
func MadeFor(state, cloud string, f Functions) (s Settings, known bool, err error) {
	all, err := load(filepath.Join(state, FunctionsFileName))
	s, known = all[f.key(cloud)]
	return s, known, err
}

// NoteMadeFor notes it, or with nil that it was removed.
func NoteMadeFor(state, cloud string, f Functions, s *Settings) error {
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
