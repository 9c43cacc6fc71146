// The restricted Pod Security Standard, rule by rule: what the API server would refuse of a pod in a namespace that
// enforces it.

import type { IContainer } from 'kubernetes-models/v1/Container'
import type { IPodSpec } from 'kubernetes-models/v1/PodSpec'

const VOLUME_KINDS = [
  'configMap',
  'csi',
  'downwardAPI',
  'emptyDir',
  'ephemeral',
  'persistentVolumeClaim',
  'projected',
  'secret',
]
const SELINUX_TYPES = new Set(['container_t', 'container_init_t', 'container_kvm_t', 'container_engine_t'])
const SAFE_SYSCTLS = new Set([
  'kernel.shm_rmid_forced',
  'net.ipv4.ip_local_port_range',
  'net.ipv4.ip_local_reserved_ports',
  'net.ipv4.ip_unprivileged_port_start',
  'net.ipv4.tcp_syncookies',
  'net.ipv4.ping_group_range',
  'net.ipv4.tcp_keepalive_time',
  'net.ipv4.tcp_fin_timeout',
  'net.ipv4.tcp_keepalive_intvl',
  'net.ipv4.tcp_keepalive_probes',
  'net.ipv4.tcp_rmem',
  'net.ipv4.tcp_wmem',
])

/** True: the pod keeps the rule. */
type Rule = (pod: IPodSpec) => boolean

/** What a container says overrides what its pod says. */
const everyContainer =
  (keeps: (container: IContainer, pod: IPodSpec) => boolean): Rule =>
  (pod) =>
    containersOf(pod).every((container) => keeps(container, pod))

export const RESTRICTED: Readonly<Record<string, Rule>> = {
  'no host process': (pod) => contextsOf(pod).every(({ windowsOptions }) => windowsOptions?.hostProcess !== true),
  'no namespace of the host': (pod) => !pod.hostNetwork && !pod.hostPID && !pod.hostIPC,
  'not privileged': everyContainer(({ securityContext }) => securityContext?.privileged !== true),
  'no capability but NET_BIND_SERVICE': everyContainer(
    ({ securityContext }) =>
      securityContext?.capabilities?.drop?.includes('ALL') === true &&
      (securityContext.capabilities.add ?? []).every((name) => name === 'NET_BIND_SERVICE'),
  ),
  'volumes of harmless kinds': (pod) =>
    (pod.volumes ?? []).every((volume) => Object.keys(volume).every((key) => ['name', ...VOLUME_KINDS].includes(key))),
  'no port of the host': everyContainer(({ ports }) => (ports ?? []).every(({ hostPort }) => !hostPort)),
  'AppArmor as it is': (pod) => contextsOf(pod).every(({ appArmorProfile }) => appArmorProfile?.type !== 'Unconfined'),
  'SELinux of containers': (pod) =>
    contextsOf(pod).every(
      ({ seLinuxOptions }) =>
        seLinuxOptions === undefined ||
        (SELINUX_TYPES.has(seLinuxOptions.type ?? 'container_t') && !seLinuxOptions.user && !seLinuxOptions.role),
    ),
  'a masked proc': everyContainer(({ securityContext }) => (securityContext?.procMount ?? 'Default') === 'Default'),
  'safe sysctls': (pod) => (pod.securityContext?.sysctls ?? []).every(({ name }) => SAFE_SYSCTLS.has(name)),
  'probes of this pod alone': everyContainer((container) =>
    [container.startupProbe, container.readinessProbe, container.livenessProbe].every(
      (probe) => !probe?.httpGet?.host && !probe?.tcpSocket?.host,
    ),
  ),
  'no more privileges than at first': everyContainer(
    ({ securityContext }) => securityContext?.allowPrivilegeEscalation === false,
  ),
  'not root': everyContainer(
    ({ securityContext }, pod) => (securityContext?.runAsNonRoot ?? pod.securityContext?.runAsNonRoot) === true,
  ),
  "not root's number": (pod) => contextsOf(pod).every(({ runAsUser }) => runAsUser !== 0),
  'a filter of system calls': everyContainer(({ securityContext }, pod) => {
    const profile = securityContext?.seccompProfile ?? pod.securityContext?.seccompProfile
    return profile?.type === 'RuntimeDefault' || profile?.type === 'Localhost'
  }),
}

function containersOf(pod: IPodSpec): readonly IContainer[] {
  return [...pod.containers, ...(pod.initContainers ?? [])]
}

type SecurityContext = NonNullable<IContainer['securityContext']> & NonNullable<IPodSpec['securityContext']>

function contextsOf(pod: IPodSpec): readonly Partial<SecurityContext>[] {
  const own = containersOf(pod).map(({ securityContext }) => securityContext)
  return [pod.securityContext, ...own].map((context) => (context ?? {}) as Partial<SecurityContext>)
}
