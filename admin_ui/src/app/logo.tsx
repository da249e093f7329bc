/** Drawn here, so that it is there with the first paint. */
export function Logo({ className }: { className?: string }) {
  return (
    <svg viewBox="0 0 32 32" aria-hidden className={className}>
      <rect width="32" height="32" rx="8" fill="#3b56d6" />
      <path d="M8 10h16M16 10v13" stroke="#fff" strokeWidth="3.4" strokeLinecap="round" fill="none" />
      <path d="M9 23h3M20 23h3" stroke="#fff" strokeWidth="3.4" strokeLinecap="round" opacity=".55" fill="none" />
    </svg>
  );
}
