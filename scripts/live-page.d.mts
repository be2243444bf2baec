import type { Plugin } from 'vite';

export function livePagePlugin(): Plugin;
