// Starts nginx, HAProxy and Envoy with the files of deploy/balancers. Only addresses are put in, and what a program
// needs to run beside others.

import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { freePort, startProgram } from './programs.ts'
import { eventually } from './service.ts'

const FOLDER = resolve(import.meta.dirname, '../../deploy/balancers')

export interface Balancer {
  readonly port: number
  readonly pid: number
  stop(): Promise<void>
}

/** Where a balancer finds a node. */
export interface NodeAddress {
  readonly port: number
  readonly adminPort: number
}

interface Place {
  readonly nodes: readonly [NodeAddress, NodeAddress]
  readonly port: number
  readonly sparePort: number
  readonly folder: string
}

interface Kind {
  readonly file: string
  /** What stands in the file, and what stands there for a test. */
  readonly changes: (place: Place) => readonly (readonly [string, string])[]
  readonly command: (file: string, folder: string) => readonly string[]
}

const isRoot = process.getuid?.() === 0

export type BalancerName = 'nginx' | 'haproxy' | 'envoy'

const KINDS: Readonly<Record<BalancerName, Kind>> = {
  nginx: {
    file: 'nginx.conf',
    changes: ({ nodes, port, folder }) => [
      ['listen 8080;', `listen 127.0.0.1:${port};`],
      ...nodes.map(
        ({ port: nodePort }, at) => [`server sluice-${at + 1}:8080 `, `server 127.0.0.1:${nodePort} `] as const,
      ),
      // Its own folders belong to the system's nginx.
      [
        'http {\n',
        `http {\n${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${folder}/${name};\n`).join('')}`,
      ],
    ],
    command: (file, folder) => {
      // Workers of another user could not enter the folder.
      const globals = `daemon off; pid ${folder}/nginx.pid; error_log stderr warn;${isRoot ? ' user root;' : ''}`
      return ['nginx', '-p', folder, '-e', 'stderr', '-c', file, '-g', globals]
    },
  },
  haproxy: {
    file: 'haproxy.cfg',
    changes: ({ nodes, port, sparePort }) => [
      ['bind :8080\n', `bind 127.0.0.1:${port}\n`],
      ['bind :8404\n', `bind 127.0.0.1:${sparePort}\n`],
      ['check port 9090 ', 'check '],
      ...nodes.map(
        ({ port: nodePort, adminPort }, at) =>
          [`sluice-${at + 1}:8080`, `127.0.0.1:${nodePort} port ${adminPort}`] as const,
      ),
    ],
    command: (file) => ['haproxy', '-db', '-f', file],
  },
  envoy: {
    file: 'envoy.yaml',
    changes: ({ nodes, port }) => [
      ['address: 0.0.0.0, port_value: 8080', `address: 127.0.0.1, port_value: ${port}`],
      ...nodes.map(
        ({ port: nodePort, adminPort }, at) =>
          [
            `address: sluice-${at + 1}, port_value: 8080 } }\n                  health_check_config: { port_value: 9090 }`,
            `address: 127.0.0.1, port_value: ${nodePort} } }\n                  health_check_config: { port_value: ${adminPort} }`,
          ] as const,
      ),
    ],
    // It comes in no package of Debian: SLUICE_TEST_ENVOY names the program.
    command: (file) => [programOf('envoy'), '-c', file, '--use-dynamic-base-id', '--concurrency', '2'],
  },
}

export const BALANCERS = Object.keys(KINDS) as BalancerName[]

export function programOf(name: BalancerName): string {
  return name === 'envoy' ? (process.env['SLUICE_TEST_ENVOY'] ?? 'envoy') : name
}

/** `alter` makes another configuration of the file, to see what becomes of it. */
export async function startBalancer(
  name: BalancerName,
  nodes: readonly [NodeAddress, NodeAddress],
  alter: (text: string) => string = (text) => text,
): Promise<Balancer> {
  const kind = KINDS[name]
  const sparePort = await freePort()
  const text = alter(readFileSync(join(FOLDER, kind.file), 'utf8'))
  const program = await startProgram({
    name,
    command: ({ port, folder }) => {
      const file = join(folder, kind.file)
      writeFileSync(file, substitute(text, kind.changes({ nodes, port, sparePort, folder })))
      return kind.command(file, folder)
    },
  })
  return {
    port: program.port,
    pid: program.pid,
    stop: async () => {
      // First in good order: a killed nginx would leave its workers behind.
      process.kill(program.pid, 'SIGTERM')
      await eventually(`${name} ends`, () => !isAlive(program.pid)).catch(() => {})
      await program.stop()
    },
  }
}

/** Each must be there: a file that has changed would otherwise be tried with addresses of nobody. */
export function substitute(text: string, changes: readonly (readonly [string, string])[]): string {
  return changes.reduce((result, [from, to]) => {
    if (!result.includes(from)) throw new Error(`there is no ${JSON.stringify(from)} in:\n${text}`)
    return result.replaceAll(from, to)
  }, text)
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
