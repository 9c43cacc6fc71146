// Installs what only the tests need, beside their runner.

import { installPackages } from '../tools/install.js'

installPackages(import.meta.dirname, 'a driver of browsers, types of Kubernetes, Lua and simdjson (about 90 MB)')
