// Before the tests that run the service: the programs that they call beside Node. On Debian, as root, what is missing
// is installed; elsewhere one line says how.

import { spawnSync } from 'node:child_process'

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
}

export default function installPrerequisites(): void {
  const programs = Object.entries(PROGRAMS)
  const missing = programs.filter(([name]) => spawnSync(name, ['--version'], { stdio: 'ignore' }).error !== undefined)
  if (missing.length === 0) return
  const packages = [...new Set(missing.map(([, debianPackage]) => debianPackage))]
  const install = `apt-get install -y --no-install-recommends ${packages.join(' ')}`
  const isDebianRoot = process.getuid?.() === 0 && spawnSync('apt-get', ['--version'], { stdio: 'ignore' }).status === 0
  if (isDebianRoot) {
    console.log(`tests: ${install}`)
    spawnSync('apt-get', ['update'], { stdio: 'ignore' })
    const installed = spawnSync('apt-get', ['install', '-y', '--no-install-recommends', ...packages], {
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    if (installed.status === 0) return
  }
  throw new Error(`the tests need ${missing.map(([name]) => name).join(', ')}: install them, on Debian with ${install}`)
}
