// Step variables, as the host lays them out: a header, and arrays at the offsets that it says.
#pragma once
#include "akunu.h"

inline device const StepHeader &step_header(device const uint *steps) { return *(device const StepHeader *)steps; }

inline device const RowVars &row_vars(device const uint *steps, uint row) {
    return ((device const RowVars *)(steps + step_header(steps).rows_offset / 4))[row];
}

// The row that an output is of.
inline uint output_row(device const uint *steps, uint output) { return steps[step_header(steps).outputs_offset / 4 + output]; }

// The block table of a sequence.
inline device const uint *block_table(device const uint *steps, uint group, uint sequence) {
    device const StepHeader &header = step_header(steps);
    return steps + header.tables_offset / 4 + (group * header.table_sequences + sequence) * header.table_blocks;
}

// How the token of an output is drawn, the rules of texts, and where the text of an output stands.
inline device const DrawVars &draw_vars(device const uint *steps, uint output) {
    return ((device const DrawVars *)(steps + step_header(steps).draws_offset / 4))[output];
}
inline device const Rules &rules_of(device const uint *steps) { return *(device const Rules *)(steps + step_header(steps).rules_offset / 4); }
inline device const RuleVars &text_of(device const uint *steps, uint output) {
    return ((device const RuleVars *)(steps + step_header(steps).texts_offset / 4))[output];
}

// Where a row's key and value are stored.
inline uint place_of(device const RowVars &row) { return row.position + row.ahead; }

// Whether a row does not see an earlier place because it belongs to another branch.
inline bool hides(device const RowVars &row, uint place) {
    const uint before = place_of(row) - (place + 1);
    return before < 64 && (row.hidden[before / 32] >> before % 32 & 1) != 0;
}

// The first and the last position that a row sees.
inline uint2 positions_seen(device const RowVars &row, uint sees, uint window) {
    if (sees == SEES_ALL) {
        const uint last = row.length - 1;
        if (window == 0) return uint2(0, last);
        const uint half_window = window / 2;
        return uint2(row.position < half_window ? 0 : row.position - half_window, min(last, row.position + half_window));
    }
    const uint first = window == 0 || row.position + 1 < window ? 0 : row.position + 1 - window;
    return uint2(first, place_of(row));
}
