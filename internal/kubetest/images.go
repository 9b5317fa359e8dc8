package kubetest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// tools are the programs, copied from this computer, in the image of a real node: for downloading agents and for tasks.
var tools = []string{"bash", "cat", "chmod", "curl", "cut", "date", "env", "grep", "head", "id", "ls", "mkdir",
	"mktemp", "mv", "rm", "sed", "sha256sum", "sleep", "tail", "tee", "touch", "tr"}

// Images writes an OCI archive (image specification, "Image Layout") with two images: ToolsImage, made of this
// computer's programs and a bundle of certificates for them to trust, and the image that holds a pod's namespaces.
func Images(ctx context.Context, file string, certificates []byte) error {
	layer, err := toolsLayer(ctx, certificates)
	if err != nil {
		return err
	}
	a := archive{}
	content := a.put(layer, "application/vnd.oci.image.layer.v1.tar")
	var manifests []map[string]any
	for _, image := range []struct {
		name  string
		entry []string
	}{{ToolsImage, nil}, {pauseImage, []string{"/bin/sleep", "infinity"}}} {
		config, err := a.json("application/vnd.oci.image.config.v1+json", map[string]any{
			"architecture": "amd64", "os": "linux",
			"config": map[string]any{"Env": []string{"PATH=/usr/bin:/bin"}, "Entrypoint": image.entry},
			"rootfs": map[string]any{"type": "layers", "diff_ids": []any{content["digest"]}},
		})
		if err != nil {
			return err
		}
		const kind = "application/vnd.oci.image.manifest.v1+json"
		m, err := a.json(kind, map[string]any{
			"schemaVersion": 2, "mediaType": kind, "config": config, "layers": []any{content},
		})
		if err != nil {
			return err
		}
		m["annotations"] = map[string]string{"io.containerd.image.name": image.name}
		manifests = append(manifests, m)
	}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": manifests})
	if err != nil {
		return err
	}
	a["index.json"], a["oci-layout"] = index, []byte(`{"imageLayoutVersion": "1.0.0"}`)
	text, err := a.tar()
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// archive is a folder of files by name.
type archive map[string][]byte

// put adds a blob and returns its descriptor.
func (a archive) put(blob []byte, kind string) map[string]any {
	sum := sha256.Sum256(blob)
	digest := hex.EncodeToString(sum[:])
	a["blobs/sha256/"+digest] = blob
	return map[string]any{"mediaType": kind, "digest": "sha256:" + digest, "size": len(blob)}
}

func (a archive) json(kind string, value any) (map[string]any, error) {
	text, err := json.Marshal(value)
	return a.put(text, kind), err
}

func (a archive) tar() ([]byte, error) {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	for name, text := range a {
		if err := add(t, name, text, 0o644); err != nil {
			return nil, err
		}
	}
	err := t.Close()
	return b.Bytes(), err
}

func add(t *tar.Writer, name string, text []byte, mode int64) error {
	if err := t.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: mode}); err != nil {
		return err
	}
	_, err := t.Write(text)
	return err
}

// toolsLayer returns the file system of the images as a tar archive.
func toolsLayer(ctx context.Context, certificates []byte) ([]byte, error) {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	for name, mode := range map[string]int64{
		"tmp/": 0o1777, "root/": 0o755, "proc/": 0o755, "sys/": 0o755, "dev/": 0o755,
	} {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode}); err != nil {
			return nil, err
		}
	}
	files, err := needed(ctx)
	if err != nil {
		return nil, err
	}
	for name, from := range files {
		text, err := os.ReadFile(from) //nolint:gosec // a program of this computer
		if err != nil {
			return nil, err
		}
		if err := add(t, strings.TrimPrefix(name, "/"), text, 0o755); err != nil {
			return nil, err
		}
	}
	for name, text := range map[string]string{ //nolint:gosec // the users of an image; none has a password
		"etc/passwd": "root:x:0:0::/root:/bin/bash\n", "etc/group": "root:x:0:\n",
		"etc/ssl/certs/ca-certificates.crt": string(certificates),
	} {
		if err := add(t, name, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	err = t.Close()
	return b.Bytes(), err
}

// needed returns the tools and the libraries that ldd lists for them, as paths on this computer by their path in the
// image.
func needed(ctx context.Context) (map[string]string, error) {
	files := map[string]string{}
	for _, tool := range tools {
		path, err := exec.LookPath(tool)
		if err != nil {
			return nil, err
		}
		files["/bin/"+tool], files["/usr/bin/"+tool] = path, path
		out, err := exec.CommandContext(ctx, "ldd", path).Output() //nolint:gosec // a tool of this machine
		if err != nil {
			return nil, err
		}
		for _, word := range strings.Fields(string(out)) {
			if filepath.IsAbs(word) && !slices.Contains([]string{"/", "/bin/" + tool}, word) {
				files[word] = word
			}
		}
	}
	files["/bin/sh"] = files["/bin/bash"]
	return files, nil
}
