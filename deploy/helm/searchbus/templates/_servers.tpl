{{/* Parts that the two servers of the release, NATS and Qdrant, have alike. */}}

{{/* Where pods of a server run: dict "root" $ "name" NAME. */}}
{{- define "server-pods" -}}
{{- with .root.Values.pod }}
{{- toYaml . }}
{{ end }}
{{- with .root.Values.image.pullSecrets -}}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{ end }}
{{- if gt (int (index .root.Values .name).replicas) 1 -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: DoNotSchedule
    labelSelector:
      matchLabels: {app.kubernetes.io/name: {{ .name }}}
{{- end }}
{{- end }}

{{/* A drained node stops one server of several: dict "root" $ "name" NAME. */}}
{{- define "server-budget" -}}
{{- if gt (int (index .root.Values .name).replicas) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  labels: {{- include "origin" .root | nindent 4 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {app.kubernetes.io/name: {{ .name }}}
{{- end }}
{{- end }}

{{/* The Secret with the certificate of a server of the release, where it has TLS: dict "root" $ "name" NAME. */}}
{{- define "server-tls" -}}
{{ if .root.Values.tls.enabled }}{{ (index .root.Values.tls .name).serverSecret }}{{ end }}
{{- end }}

{{/* The Secret with the authority of a server, of the release or another, where it has TLS: dict "root" $ "name" NAME. */}}
{{- define "authority" -}}
{{- $tls := index .root.Values.tls .name -}}
{{- if .root.Values.tls.enabled -}}
{{ $tls.caSecret }}{{ if and (index .root.Values .name).enabled (not $tls.caSecret) }}{{ $tls.serverSecret }}{{ end }}
{{- end }}
{{- end }}

{{/* The configuration of NATS: that of one server, and what a cluster and TLS add. */}}
{{- define "nats.conf" -}}
{{- $count := int .Values.nats.replicas }}
{{- $tls := include "server-tls" (dict "root" . "name" "nats") }}
{{- .Files.Get "files/nats.conf" }}
{{- if gt $count 1 }}
{{- $routes := list }}
{{- range $number := until $count }}{{ $routes = append $routes (printf "nats://nats-%d.nats:6222" $number) }}{{ end -}}
server_name: $POD_NAME
cluster { name: searchbus, port: 6222, no_advertise: true, routes: [{{ join ", " $routes }}]
{{- if $tls }}
  tls {{ template "nats-files" }}, ca_file: "/etc/nats-tls/ca.crt", verify: true }
{{- end }} }
{{ end }}
{{- if $tls -}}
tls {{ template "nats-files" }}
{{- if .Values.tls.nats.clientCertificates }}, ca_file: "/etc/nats-tls/ca.crt", verify: true{{ end }} }
{{ end }}
{{- end }}
{{- define "nats-files" -}}
{ cert_file: "/etc/nats-tls/tls.crt", key_file: "/etc/nats-tls/tls.key"
{{- end }}
