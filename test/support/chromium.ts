import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';
import { afterAll, beforeAll } from 'vitest';
import { describeWith } from './needs.js';

const path = [
  process.env['CHROMIUM_PATH'],
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
].find((path) => path !== undefined && existsSync(path));

/**
 * Tests in a real browser: the one of `CHROMIUM_PATH`, or an installed Chromium. Without either they are skipped, loudly; in CI
 * they fail. Every host name leads to this machine, so that pages can have origins like those of real sites.
 */
export function describeChromium(name: string, body: (browser: () => Browser) => void): void {
  const missing = 'No Chromium was found. Install the package chromium, or set CHROMIUM_PATH.';
  describeWith(path ? undefined : missing, name, () => {
    let browser: Browser;
    beforeAll(async () => {
      // Letters in grey: pictures of pages are smaller, and the same on all screens.
      const args = ['--host-resolver-rules=MAP * 127.0.0.1', '--disable-lcd-text'];
      browser = await chromium.launch({ executablePath: path!, chromiumSandbox: false, args });
    });
    afterAll(() => browser?.close());
    body(() => browser);
  });
}
