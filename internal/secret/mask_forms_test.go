package secret_test

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/secret"
)

// A secret must also be masked in the forms that programs in other languages use for it in JSON and URLs.
func TestMaskEncodingsOfOtherPrograms(t *testing.T) {
	for _, c := range []struct{ name, secret, printed string }{
		{"python json.dumps, jq, JSON.stringify", `pa"ss&word1`, `{"password": "pa\"ss&word1"}`},
		{"python json.dumps of a letter", "geheimnisüber", `{"password": "geheimnis\u00fcber"}`},
		{"JSON.stringify of a key in lines", "<key>\nabcdefgh", `"<key>\nabcdefgh"`},
		{"encodeURIComponent", "p@ss!w(o)rd", "postgres://u:p%40ss!w(o)rd@db/x"},
		{"python urllib.parse.quote", "p@ss/w:ord", "p%40ss/w%3Aord"},
		{"python quote_plus is Go's", "p@ss w:ord", "p%40ss+w%3Aord"},
		{"lower case escapes (Java, .NET)", "p@ss/word", "p%40ss%2fword"},
	} {
		if got := secret.NewMask(c.secret).String(c.printed); !strings.Contains(got, secret.Hidden) {
			t.Errorf("%s: secret %q was printed as %s", c.name, c.secret, got)
		}
	}
}
