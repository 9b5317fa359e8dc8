package refresh

import (
	"os/exec"
	"strings"
	"testing"
)

// Rights are missing. The report must contain the command that grants them, quoted for a shell.
func TestGrantCommand(t *testing.T) {
	for identity, want := range map[string]string{
		"arn:aws:iam::1:user/people/ada":                  "put-user-policy --user-name ada ",
		"arn:aws:sts::1:assumed-role/tradewind-refresh/x": "put-role-policy --role-name tradewind-refresh ",
		"arn:aws:iam::1:root":                             "put-user-policy --user-name NAME ",
	} {
		command := grant("tradewind-reserved", identity, []string{"ec2:DescribeReservedInstances", "savingsplans:DescribeSavingsPlans"})
		out, err := exec.CommandContext(t.Context(), "bash", "-n", "-c", command).CombinedOutput()
		if err != nil || !strings.Contains(command, want) || !strings.Contains(command, `"ec2:DescribeReservedInstances","savingsplans:`) {
			t.Errorf("%s: %s%s", identity, command, out)
		}
	}
}
