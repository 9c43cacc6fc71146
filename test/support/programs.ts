// Programs for tests: see processes.js, which the load tools use too.

export { freePort, type Program, startProgram } from './processes.js'
