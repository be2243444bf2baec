import { describe, expect, it } from 'vitest';
import { askedFor, binaryOf, type Running } from '../../bench/harness/node-binary.js';

const machine = (version: string, platform: NodeJS.Platform = 'linux', arch = 'x64'): Running => ({
  version,
  platform,
  arch: arch as NodeJS.Architecture,
  execPath: '/machine/node',
});
const fromNpm = (major: number): string => `/npm/${major}/node`;
const notInstalled = (): never => {
  throw new Error('Nothing is to be installed here.');
};

describe('the Node.js that measures', () => {
  it('the Node.js that measures is 24 unless --node asks for another, which the bench itself does not see', () => {
    expect(askedFor(['--quick'])).toEqual({ major: 24, rest: ['--quick'] });
    expect(askedFor(['--only', 'call', '--node', '20', '--quick'])).toEqual({
      major: 20,
      rest: ['--only', 'call', '--quick'],
    });
    expect(askedFor(['--node=22', '--quick'])).toEqual({ major: 22, rest: ['--quick'] });
  });

  it.each([['--node'], ['--node='], ['--node', '--quick'], ['--node', 'v20'], ['--node', '20.1']])(
    'the Node.js that measures is not chosen by %s %s',
    (...args) => {
      expect(() => askedFor(args)).toThrow('--node must be a major version, such as 24; got "');
    },
  );

  it("the Node.js that measures is the machine's own where that is the major", () => {
    expect(binaryOf(24, machine('v24.3.0'), notInstalled)).toEqual({ path: '/machine/node' });
    expect(binaryOf(20, machine('v20.20.2', 'darwin', 'arm64'), notInstalled)).toEqual({ path: '/machine/node' });
  });

  it('the Node.js that measures comes from npm where the machine has another major', () => {
    expect(binaryOf(24, machine('v20.20.2'), fromNpm)).toEqual({ path: '/npm/24/node' });
    expect(binaryOf(22, machine('v24.3.0'), fromNpm)).toEqual({ path: '/npm/22/node' });
  });

  it('the Node.js that measures is the one that runs on another platform, and that is said in one line', () => {
    expect(binaryOf(24, machine('v22.12.0', 'darwin', 'arm64'), notInstalled)).toEqual({
      path: '/machine/node',
      notice: 'npm has no Node.js 24 that runs here (darwin-arm64): Node.js v22.12.0 measures.',
    });
  });

  it('the Node.js that measures is the one that runs where the binary of npm does not', () => {
    expect(binaryOf(24, machine('v22.12.0'), () => undefined)).toEqual({
      path: '/machine/node',
      notice: 'npm has no Node.js 24 that runs here (linux-x64): Node.js v22.12.0 measures.',
    });
  });
});
