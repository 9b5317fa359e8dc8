package cli

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// maxOutputs is the maximum number of tasks of which the outputs are listed.
const maxOutputs = 8

// outputLines says where each output of a job is, and which commands download those in buckets. account is Azure's
// storage account.
func outputLines(tasks []apitypes.TaskView, account string) (lines []string) {
	var folders []string
	listed, more := 0, 0
	width := 0
	for i := range tasks {
		if tasks[i].Output != "" && listed < maxOutputs {
			width, listed = max(width, len(text.Clean(tasks[i].Name))), listed+1
		}
	}
	for i := range tasks {
		t := &tasks[i]
		if t.Output == "" {
			continue
		}
		if folder := jobFolder(t.Output); !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
		if len(lines) == maxOutputs {
			more++
			continue
		}
		lines = append(lines, fmt.Sprintf("%-*s  %s", width, text.Clean(t.Name), address(t.Output, account)))
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and those of %s more", text.Count(more, "task")))
	}
	labelled(lines, "outputs:   ")
	var commands []string
	for _, folder := range folders {
		if c := download(folder, account); c != "" {
			commands = append(commands, c)
		}
	}
	labelled(commands, "download:  ")
	return append(lines, commands...)
}

// labelled puts a label before the first line, and as many spaces before the others.
func labelled(lines []string, label string) {
	for i := range lines {
		if i > 0 {
			label = strings.Repeat(" ", len(label))
		}
		lines[i] = label + lines[i]
	}
}

// jobFolder is the folder of a job in a store, given the folder of one of its outputs, JOB/TASK/out/ATTEMPT/….
func jobFolder(output string) string {
	if i := strings.LastIndex(output, "/out/"); i > 0 {
		output = output[:i]
	}
	return output[:strings.LastIndex(output, "/")+1]
}

// address is a URI of a store as the cloud's own tools read it.
func address(uri, account string) string {
	if local, ok := strings.CutPrefix(uri, "file://"); ok {
		if plain, err := url.PathUnescape(local); err == nil {
			local = plain
		}
		return filepath.FromSlash(local)
	}
	if blob, ok := strings.CutPrefix(uri, "azblob://"); ok {
		return "https://" + account + ".blob.core.windows.net/" + blob
	}
	return uri
}

// download is the command that copies the outputs of a job from a bucket into a folder; empty if they are here.
func download(folder, account string) string {
	scheme, rest, _ := strings.Cut(folder, "://")
	bucket, prefix, _ := strings.Cut(rest, "/")
	job := path.Base(prefix)
	switch scheme {
	case "s3":
		return fmt.Sprintf("aws s3 cp --recursive %s %s/ --exclude '*/ckpt/*'", folder, job)
	case "gs":
		return fmt.Sprintf("gcloud storage cp --recursive %s .", strings.TrimSuffix(folder, "/"))
	case "azblob":
		return fmt.Sprintf("az storage blob download-batch --account-name %s --auth-mode login --source %s "+
			"--pattern '%s*' --destination .", account, bucket, prefix)
	}
	return ""
}

// storageAccount is Azure's storage account in the settings of a state folder, or a placeholder.
func storageAccount(state string) string {
	settings, err := cloudkit.Load(state)
	if account := settings["azure"].StorageAccount; err == nil && account != "" {
		return account
	}
	return "ACCOUNT"
}

// outputsFolder is the folder with the outputs of a job: in a bucket, or below the state folder.
func outputsFolder(state string, d *apitypes.JobDetail) string {
	for i := range d.TaskList {
		if uri := d.TaskList[i].Output; uri != "" && !strings.HasPrefix(uri, "file://") {
			return jobFolder(uri)
		}
	}
	return filepath.Join(state, "objects", d.ID)
}
